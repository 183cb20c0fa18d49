"""TensorFlow Serving's REST and gRPC APIs at the running stack's ports (LIGHTBOX_TFS_API)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grpc
import pytest
import requests

from contract.golden import replay
from support import commands
from support.models import GOLDEN
from support.patience import PATIENCE
from support.stack import Stack

RPCS = [case for case in replay.load(str(GOLDEN.parent / "grpc.jsonl")) if case["method"] != replay.RELOAD]
DIFFERENT_RPCS = {
    "predict.version.0": "version 0 is the newest to clients of OpenVINO Model Server",
    "predict.label.stable": "Lightbox configures no labels",
    "predict.label.canary": "Lightbox configures no labels",
    "metadata.label": "Lightbox configures no labels",
    "health.nope": "Lightbox's health service has its own words",
    "health.full.PredictionService": "Lightbox's health service has its own words",
}
GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
CLIENT = Path(__file__).with_name("kserve_v1_client.py")
MODEL = "half_plus_two"


@pytest.fixture(scope="module")
def rpc_address(golden_stack: Stack) -> str:
    address = f"127.0.0.1:{golden_stack.environ[GRPC_PORT]}"
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(PATIENCE)
    return address


def test_rpcs_are_answered_as_by_the_real_server(golden_stack: Stack, rpc_address: str) -> None:
    found = {}
    for case in RPCS:
        problem = replay.check_grpc(rpc_address, f"127.0.0.1:{golden_stack.port}", case, "TMPDIR/models")
        if problem is not None:
            found[case["id"]] = problem
    assert found.keys() == DIFFERENT_RPCS.keys(), found
    golden_stack.wait_until(lambda: "route=/tensorflow.serving.PredictionService/Predict model=" in golden_stack.log)


def test_models_cannot_be_configured_by_callers(rpc_address: str) -> None:
    answer = replay.call_grpc(rpc_address, {"method": replay.RELOAD, "request_base64": ""})
    assert answer["code"] == "UNIMPLEMENTED"


def test_kserves_v1_finds_the_server_alive(golden_stack: Stack) -> None:
    assert requests.get(golden_stack.url, timeout=PATIENCE).json() == {"status": "alive"}


@pytest.mark.extended
def test_kserves_own_client_is_answered(golden_stack: Stack) -> None:
    """The client runs in its own process: kserve registers the same messages as tritonclient in other tests."""
    command = [sys.executable, "-W", "ignore", str(CLIENT), golden_stack.url, MODEL, "1", "5"]
    printed = commands.output(command)
    assert json.loads(printed.splitlines()[-1]) == {"predictions": [3.5, 5.5]}


def test_the_description_has_the_routes(golden_stack: Stack) -> None:
    document = requests.get(f"{golden_stack.url}/openapi.json", timeout=PATIENCE).json()
    assert document["paths"].keys() >= {"/v1/models/{model}:predict", "/v1/models/{model}/versions/{version}/metadata"}
