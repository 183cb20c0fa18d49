"""Callers who may only predict, and files beside others: each TargetModel gets its own file's answer, and a place."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests

from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image
from support.loading import IMAGE, invoke, load, unload
from support.models import export_constant
from support.patience import PATIENCE
from support.stack import Stack, running

pytestmark = pytest.mark.extended

MOST = 4
HASH = hashlib.sha256(b"tenantA/fraud").hexdigest()[:8]
"""The part of a name that earlier releases made of a path."""


@pytest.fixture(scope="module")
def root(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    export_held_image(root / "held", module_door)
    export_constant(root / "bad", 1, 9.0)
    for number in range(8):
        export_constant(root / f"m{number}", 1, float(number))
    (root / "link").symlink_to("m1")
    return root


@pytest.fixture(scope="module")
def loading_stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"SAGEMAKER_MULTI_MODEL": "true", "LIGHTBOX_MAX_MODELS": str(MOST)}
    environ["SAGEMAKER_GUNICORN_THREADS"] = "16"  # half of them may load, or wait for one
    with running(root, tmp_path_factory.mktemp("run"), **environ, **MANY_HELD) as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_loaded(loading_stack: Stack) -> Iterator[None]:
    yield
    for name in names(loading_stack):
        unload(loading_stack, name)


def names(stack: Stack) -> list[str]:
    listed = requests.get(f"{stack.url}/models", timeout=PATIENCE).json()["models"]
    return [entry["modelName"] for entry in listed]


def use(stack: Stack, target: str, body: bytes = IMAGE, path: str = "/endpoints/any/invocations") -> requests.Response:
    return stack.invoke(body, path, X_Amzn_SageMaker_Target_Model=target)


def pack(root: Path, name: str, number: int) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    with tarfile.open(root / name, "w:gz") as archive:
        archive.add(root / f"m{number}", ".")


@pytest.mark.parametrize(
    "targets",
    [
        ("pets.tar.gz", "pets.tar.gz.tar.gz"),
        ("pets.tar.gz.tar.gz", "pets.tar.gz"),
        ("birds.tgz", "birds.tar.gz"),
        (f"tenantA-fraud-{HASH}.tar.gz", "tenantA/fraud.tar.gz"),
        ("tenantA/fraud.tar.gz", "tenantA-fraud.tgz"),
    ],
)
def test_no_other_file_answers_for_a_target(loading_stack: Stack, root: Path, targets: tuple[str, str]) -> None:
    for number, target in enumerate(targets):
        pack(root, target, number)
    for _ in range(2):
        for number, target in enumerate(targets):
            assert use(loading_stack, target).json() == {"predictions": [float(number)]}
            assert use(loading_stack, target, path="/invocations").json() == {"predictions": [float(number)]}
    first, second = names(loading_stack)
    assert unload(loading_stack, first).status_code == 200
    for number, target in enumerate(targets):  # whichever is left
        assert use(loading_stack, target).json() == {"predictions": [float(number)]}
    assert second in names(loading_stack)


def test_the_protocols_names_are_a_files_own_or_taken(loading_stack: Stack, root: Path) -> None:
    pack(root, "cats.tgz", 1)
    pack(root, "cats.tar.gz", 2)
    assert use(loading_stack, "cats.tgz").json() == {"predictions": [1.0]}
    refused = loading_stack.invoke(b"", "/v2/repository/models/cats.tar.gz/load")
    assert (refused.status_code, refused.json()["error"]) == (409, "Model cats is already loaded, from 'cats.tgz'")
    assert loading_stack.invoke(b"", "/v2/repository/models/cats.tgz/load").status_code == 200
    assert loading_stack.invoke(b"", "/v2/repository/models/m1/load").status_code == 200
    refused = loading_stack.invoke(b"", "/v2/repository/models/link/load")
    assert (refused.status_code, refused.json()["error"]) == (409, "Model link is already loaded, as 'm1'")
    assert names(loading_stack) == ["cats", "m1"]


def test_a_path_is_loaded_once_whatever_its_spelling(loading_stack: Stack, root: Path) -> None:
    spellings = [
        *("./" * count + "m1" for count in range(20)),
        "m2/../m1",
        "link",
        str(root / "m1"),
        f"file://{root}/m1/",
    ]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda target: use(loading_stack, target), spellings))
    assert {answer.text for answer in answers} == {'{"predictions":[1.0]}'}
    assert len(names(loading_stack)) == 1
    for name in ("a", "b"):  # whoever may load chooses names, also several
        assert load(loading_stack, name, "m1").status_code == 200
    assert use(loading_stack, "m1").text == '{"predictions":[1.0]}'
    assert len(names(loading_stack)) == 3


def test_whoever_may_only_predict_locks_no_one_out(loading_stack: Stack, root: Path, door: Door) -> None:
    held = png(np.full((8, 8, 3), (40, 0, 0)))
    with ThreadPoolExecutor(1) as pool:
        running_one = pool.submit(use, loading_stack, "held", held)
        door.wait_for()
        for number in range(8):
            assert use(loading_stack, f"m{number}").json() == {"predictions": [float(number)]}
            assert use(loading_stack, "bad", b"no picture").status_code == 424
        assert len(names(loading_stack)) < MOST
        for number in range(MOST - 1):
            assert load(loading_stack, f"own{number}", f"m{number}").status_code == 200
        assert sorted(names(loading_stack)) == ["held", "own0", "own1", "own2"]
        full = load(loading_stack, "more", "m3")
        assert (full.status_code, use(loading_stack, "m4").json()["OriginalStatusCode"]) == (507, 507)
        assert not running_one.done()
        door.open()
        assert running_one.result().status_code == 200, running_one.result().text
    assert load(loading_stack, "more", "m3").status_code == 200
    assert sorted(names(loading_stack)) == ["more", "own0", "own1", "own2"]
    assert invoke(loading_stack, "more").json() == {"predictions": [3.0]}
    assert use(loading_stack, "m2").json() == {"predictions": [2.0]}  # it is loaded, under another name
