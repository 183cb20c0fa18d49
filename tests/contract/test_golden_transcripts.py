"""Every transcript of the real server, replayed against a fresh embedded server, with each choice of engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.golden import replay
from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.openvino.verdicts import OPENVINO
from support.model_server import GOLDEN, MODELS, ModelServer, golden_server
from support.parameters import each
from support.patience import poll

REST = replay.load(str(GOLDEN / "rest.jsonl"))
GRPC = replay.load(str(GOLDEN / "grpc.jsonl"))
LARGEST_EXCLUDED_SHARE = 0.03

pytestmark = pytest.mark.usefixtures("patient_replay")


def excluded() -> dict[tuple[str, str], str]:
    """Map (kind, case id) to the reason for the exclusion."""
    lines = (GOLDEN / "excluded.txt").read_text().splitlines()
    entries = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    return {(kind, case_id): reason for kind, case_id, reason in entries}


EXCLUDED = excluded()


def cases_of(kind: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [case for case in cases if (kind, case["id"]) not in EXCLUDED]


@pytest.fixture(scope="module", params=["tensorflow", pytest.param("auto", marks=pytest.mark.extended)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def replayed_server(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    folder = tmp_path_factory.mktemp("replayed")
    flags = [f"--engine={engine}", f"--engine_cache_dir={folder / 'cache'}"]
    if engine == "auto":
        with contextmanager(golden_server)(folder / "compared", *flags):
            choose_openvino(folder / "cache")
    yield from golden_server(folder, *flags)


def choose_openvino(cache: Path) -> None:
    """Choose OpenVINO for every model where it matches TensorFlow: which engine is faster depends on the machine."""
    for path in cache.glob("verdict-*.json"):
        content = disk_cache.read(path)
        assert content is not None
        for verdict in content["signatures"].values():
            if verdict["is_equal"]:
                verdict["engine"] = OPENVINO
        disk_cache.write(path, content)


def test_the_engines_that_answer(replayed_server: ModelServer, engine: str) -> None:
    """With ``auto``, OpenVINO answers some cases. Otherwise the transcripts would not test it."""
    chosen = re.findall(r"signature \w+: (\w+) \(", replayed_server.stderr)
    assert set(chosen) == ({"openvino", "tensorflow"} if engine == "auto" else set())


@each("case", cases_of("rest", REST))
def test_rest(replayed_server: ModelServer, case: dict[str, Any]) -> None:
    target = f"127.0.0.1:{replayed_server.rest_port}"
    assert replay.check_rest(target, case, str(MODELS)) is None


@each("case", cases_of("grpc", GRPC))
def test_grpc(replayed_server: ModelServer, case: dict[str, Any]) -> None:
    rest = f"127.0.0.1:{replayed_server.rest_port}"
    problem = replay.check_grpc(replayed_server.grpc_address, rest, case, str(MODELS))
    for path in case.get("restore_ready", []):
        wait_until_settled(rest, path)
    assert problem is None


def wait_until_settled(rest: str, path: str) -> None:
    """Wait until no version of a model changes: the next case may need the version that loads last."""
    states: list[str] = []
    for _ in poll():
        states = re.findall(r'"state":\s*"(\w+)"', replay.call_rest(rest, {"method": "GET", "path": path})["body"])
        if states and set(states) <= {"AVAILABLE", "END"}:
            return
    pytest.fail(f"{path} has the states {states}")


def test_little_is_excluded() -> None:
    known = {("rest", case["id"]) for case in REST} | {("grpc", case["id"]) for case in GRPC}
    assert EXCLUDED.keys() <= known
    assert all(EXCLUDED.values())
    assert len(EXCLUDED) <= LARGEST_EXCLUDED_SHARE * len(known)
