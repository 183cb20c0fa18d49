"""Archives as boto3 targets: each is unpacked once, served, and removed completely."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests

from support.fakes import png
from support.models import export_constant
from support.patience import PATIENCE, poll
from support.stack import Stack, running

pytestmark = pytest.mark.extended

IMAGE = png(np.zeros((8, 8, 3)))
ONE = '{"predictions":[1.0]}'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    export_constant(folder / "one", 1, 1.0)
    (folder / "one" / "1" / "assets.extra").mkdir()
    (folder / "one" / "1" / "assets.extra" / "large").write_bytes(os.urandom(16 << 20))
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "saved_model.pb").write_bytes(b"garbage" * 10)
    root = tmp_path_factory.mktemp("models")
    for name in ("one", "broken"):
        with tarfile.open(root / f"{name}.tar.gz", "w:gz", compresslevel=1) as archive:
            archive.add(folder / name, ".")
    with tarfile.open(root / "bare.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder / "one" / "1", ".")
    whole = (root / "one.tar.gz").read_bytes()
    half = len(whole) // 2
    (root / "cut.tar.gz").write_bytes(whole[:half])
    (root / "scrambled.tar.gz").write_bytes(whole[:half] + b"\xff" * 70_000 + whole[half + 70_000 :])
    (root / "text.tar.gz").write_text("no archive")
    return root


@pytest.fixture(scope="module")
def archives_stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_GUNICORN_THREADS": "32"}  # half of them may load
    with running(root, tmp_path_factory.mktemp("run"), **settings) as archives_stack:
        yield archives_stack


@pytest.fixture(autouse=True)
def nothing_loaded(archives_stack: Stack) -> Iterator[None]:
    yield
    for entry in models(archives_stack):
        unload(archives_stack, entry["modelName"])


def use(archives_stack: Stack, target: str) -> requests.Response:
    return archives_stack.invoke(IMAGE, "/endpoints/any/invocations", X_Amzn_SageMaker_Target_Model=target)


def unload(archives_stack: Stack, name: str) -> None:
    assert requests.delete(f"{archives_stack.url}/models/{name}", timeout=PATIENCE).status_code == 200


def models(archives_stack: Stack) -> list[dict[str, str]]:
    found: list[dict[str, str]] = requests.get(f"{archives_stack.url}/models", timeout=PATIENCE).json()["models"]
    return found


def left_behind(archives_stack: Stack) -> list[Path]:
    (run_dir,) = archives_stack.tmp.glob("lightbox-*")
    return [*run_dir.glob("models/*"), *run_dir.glob("*.lock")]


def test_many_may_be_the_first_to_use_an_archive(archives_stack: Stack, root: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: use(archives_stack, "one.tar.gz"), range(32)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(200, ONE)}
    assert [path.name.partition("-")[0] for path in left_behind(archives_stack)] == ["one", "using"], (
        "its folder, its callers"
    )
    # When a model server has found this version, it has polled its files again.
    export_constant(root / "growing", 1, 1.0)
    grown = {"model_name": "growing", "url": "growing"}
    assert requests.post(f"{archives_stack.url}/models", json=grown, timeout=PATIENCE).status_code == 200
    export_constant(root / "more", 2, 2.0)
    (shown,) = archives_stack.tmp.glob("lightbox-*/models/growing-*/versions")
    (shown / "2").symlink_to(root / "more" / "2")
    states = (requests.get(f"{archives_stack.url}/models/growing", timeout=PATIENCE).text for _ in poll())
    assert any('"version":"2"' in text.replace(" ", "") for text in states)
    assert use(archives_stack, "one.tar.gz").text == ONE


@pytest.mark.parametrize("target", ["one.tar.gz", "bare.tar.gz"])
def test_an_archive_is_listed_in_the_callers_words_and_gone_when_it_is_unloaded(
    archives_stack: Stack, target: str
) -> None:
    name = target.removesuffix(".tar.gz")
    assert use(archives_stack, target).text == ONE
    assert models(archives_stack) == [{"modelName": name, "modelUrl": target}]
    again = requests.post(f"{archives_stack.url}/models", json={"model_name": name, "url": target}, timeout=PATIENCE)
    assert again.json()["error"] == f"Model {name} is already loaded, from {target!r}"
    unload(archives_stack, name)
    assert left_behind(archives_stack) == []
    assert use(archives_stack, target).text == ONE


def test_an_archive_that_is_missing_is_refused_until_it_is_there(archives_stack: Stack, root: Path) -> None:
    assert use(archives_stack, "late.tar.gz").status_code == 424
    shutil.copy(root / "one.tar.gz", root / "late.tar.gz")
    assert use(archives_stack, "late.tar.gz").text == ONE


@pytest.mark.parametrize("name", ["broken", "cut", "scrambled", "text"])
def test_a_refused_archive_leaves_nothing_behind(archives_stack: Stack, name: str) -> None:
    answer = use(archives_stack, f"{name}.tar.gz")
    assert (answer.status_code, answer.json()["OriginalStatusCode"]) == (424, 400), answer.text
    assert str(archives_stack.tmp) not in answer.text
    assert left_behind(archives_stack) == []


def test_an_archive_may_be_a_url(archives_stack: Stack) -> None:
    answer = requests.post(
        f"{archives_stack.url}/models", json={"model_name": "mine", "url": "one.tar.gz"}, timeout=PATIENCE
    )
    assert answer.status_code == 200, answer.text
    assert models(archives_stack) == [{"modelName": "mine", "modelUrl": "one.tar.gz"}]
    assert archives_stack.invoke(IMAGE, "/models/mine/invoke").text == ONE
    unload(archives_stack, "mine")
    assert left_behind(archives_stack) == []


def test_an_archive_has_one_name_on_every_route(archives_stack: Stack) -> None:
    assert (
        archives_stack.invoke(IMAGE, X_Amzn_SageMaker_Target_Model="one.tar.gz").status_code == 404
    )  # this route does not load models
    assert archives_stack.invoke(b"", "/v2/repository/models/one.tar.gz/load").status_code == 200
    assert archives_stack.invoke(IMAGE, X_Amzn_SageMaker_Target_Model="one.tar.gz").text == ONE
    assert archives_stack.invoke(IMAGE, X_Amzn_SageMaker_Target_Model="one").text == ONE
    assert archives_stack.invoke(b"", "/v2/repository/models/one.tar.gz/unload").status_code == 200
    assert models(archives_stack) == []
    assert archives_stack.invoke(b"", "/v2/repository/models/one.tar.gz/unload").status_code == 404


def test_a_model_that_has_an_archives_path_for_its_name_does_not_answer_for_it(
    archives_stack: Stack, root: Path
) -> None:
    export_constant(root / "other", 1, 2.0)
    for name in ("one.tar.gz", "own"):
        body = {"model_name": name, "url": "other"}
        assert requests.post(f"{archives_stack.url}/models", json=body, timeout=PATIENCE).status_code == 200
    assert archives_stack.invoke(IMAGE, X_Amzn_SageMaker_Target_Model="one.tar.gz").status_code == 404
    assert use(archives_stack, "one.tar.gz").text == ONE
    assert archives_stack.invoke(IMAGE, X_Amzn_SageMaker_Target_Model="one.tar.gz").text == ONE
    for path in ("/invocations", "/endpoints/any/invocations"):  # no path, but a name
        assert archives_stack.invoke(IMAGE, path, X_Amzn_SageMaker_Target_Model="own").text == '{"predictions":[2.0]}'
    assert archives_stack.invoke(b"", "/v2/repository/models/one.tar.gz/unload").status_code == 200
    assert [entry["modelName"] for entry in models(archives_stack)] == ["one.tar.gz", "own"]
