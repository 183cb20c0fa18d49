"""Loads and unloads in quick succession, in two model servers: 200 means fully loaded or fully unloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.loading import IMAGE, invoke, load, unload
from support.models import copy_golden, export_constant
from support.stack import Stack, running

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for name in ("one", "two"):
        export_constant(root / name, 1, 1.0)
    for version in (1, 2, 3):
        export_constant(root / "three", version, float(version))
    for name in ("half", "torn"):
        copy_golden("half_plus_two", root / name)
    data = root / "torn" / "2" / "variables" / "variables.data-00000-of-00001"  # complete, with a wrong checksum
    data.write_bytes(bytes(byte ^ 0xFF for byte in data.read_bytes()))
    return root


@pytest.fixture(scope="module")
def two_servers_stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TFS_INSTANCE_COUNT": "2"}
    environ["SAGEMAKER_GUNICORN_THREADS"] = "16"  # half of them may load
    with running(root, tmp_path_factory.mktemp("run"), **environ) as two_servers_stack:
        yield two_servers_stack


def test_a_model_loads_again_right_after_its_unload_with_all_versions(two_servers_stack: Stack, root: Path) -> None:
    for _ in range(4):
        assert load(two_servers_stack, "three", root / "three").status_code == 200
        assert [version_answers(two_servers_stack, version) for version in (1, 2, 3) * 2] == [1.0, 2.0, 3.0] * 2
        assert unload(two_servers_stack, "three").status_code == 200
        assert invoke(two_servers_stack, "three").status_code == 404


def version_answers(two_servers_stack: Stack, version: int) -> float:
    attributes = f"tfs-model-version={version}"
    answer = two_servers_stack.invoke(IMAGE, "/models/three/invoke", X_Amzn_SageMaker_Custom_Attributes=attributes)
    assert answer.status_code == 200, answer.text
    return float(answer.json()["predictions"][0])


def test_two_names_at_once(two_servers_stack: Stack, root: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for change in (
            lambda name: load(two_servers_stack, name, root / name),
            lambda name: unload(two_servers_stack, name),
        ):
            assert [answer.status_code for answer in pool.map(change, ["one", "two"])] == [200, 200]


def test_a_good_model_after_one_that_the_model_server_cannot_load(two_servers_stack: Stack, root: Path) -> None:
    for _ in range(2):
        refused = load(two_servers_stack, "half", root / "torn")
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
        assert re.match(r"url: the model cannot be loaded: version 2 ended with [A-Z_]+: .", refused.json()["error"])
        assert invoke(two_servers_stack, "half").status_code == 404
        assert load(two_servers_stack, "half", root / "half").status_code == 200
        answer = two_servers_stack.invoke(
            b'{"instances": [2.0]}', "/models/half/invoke", Content_Type="application/json"
        )
        assert answer.json() == {"predictions": [4.0]}
        assert unload(two_servers_stack, "half").status_code == 200


def test_eight_loads_at_once_are_one_load_again_and_again(two_servers_stack: Stack, root: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            statuses = sorted(pool.map(lambda _: load(two_servers_stack, "one", root / "one").status_code, range(8)))
            assert statuses == [200] + [409] * 7
            assert {
                answer.status_code for answer in pool.map(lambda _: invoke(two_servers_stack, "one"), range(8))
            } == {200}
            assert unload(two_servers_stack, "one").status_code == 200
            assert {
                answer.status_code for answer in pool.map(lambda _: invoke(two_servers_stack, "one"), range(8))
            } == {404}
