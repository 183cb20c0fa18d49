"""Every transcript of the real server, replayed against a fresh stand-in."""

from __future__ import annotations

from typing import Any

import pytest

from contract.golden import replay
from support.model_server import GOLDEN, MODELS, ModelServer

REST = replay.load(str(GOLDEN / "rest.jsonl"))
GRPC = replay.load(str(GOLDEN / "grpc.jsonl"))
LARGEST_EXCLUDED_SHARE = 0.03


def excluded() -> dict[tuple[str, str], str]:
    """Return (kind, case id) to reason."""
    lines = (GOLDEN / "excluded.txt").read_text().splitlines()
    entries = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    return {(kind, case_id): reason for kind, case_id, reason in entries}


EXCLUDED = excluded()


def kept(kind: str, cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases if (kind, case["id"]) not in EXCLUDED]


@pytest.mark.parametrize("case", kept("rest", REST))
def test_rest(recorded_server: ModelServer, case: dict[str, Any]) -> None:
    target = f"127.0.0.1:{recorded_server.rest_port}"
    assert replay.check_rest(target, case, str(MODELS)) is None


@pytest.mark.parametrize("case", kept("grpc", GRPC))
def test_grpc(recorded_server: ModelServer, case: dict[str, Any]) -> None:
    rest = f"127.0.0.1:{recorded_server.rest_port}"
    assert replay.check_grpc(recorded_server.grpc_address, rest, case, str(MODELS)) is None


def test_little_is_excluded() -> None:
    known = {("rest", case["id"]) for case in REST} | {("grpc", case["id"]) for case in GRPC}
    assert EXCLUDED.keys() <= known
    assert all(EXCLUDED.values())
    assert len(EXCLUDED) <= LARGEST_EXCLUDED_SHARE * len(known)
