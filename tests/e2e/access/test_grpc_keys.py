"""Every method of the gRPC port, in every spelling of its path, requires a key with the right role."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import requests

from lightbox.features.open_inference.grpc import messages as grpc_messages
from support.grpc_front import framed, infer
from support.h2_caller import H2Caller, Response
from support.keys import basic, bearer, key
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack

GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
INFERENCE = f"/{grpc_messages.INFERENCE_SERVICE}/"
METHODS = [f"{INFERENCE}{method.name}" for method in grpc_messages.methods_of(grpc_messages.INFERENCE_SERVICE)]
MORE = [
    "/tensorflow.serving.PredictionService/Predict",
    "/tensorflow.serving.ModelService/GetModelStatus",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/a.Service/Method",
    "/",
]
SPELLED = [
    "//{}",
    "/./{}",
    "/x/../{}",
    "/%69{}",
    "/{}/",
    "/grpc.health.v1.Health/../{}",
    "/{}?x=/grpc.health.v1.Health/Check",
]


def called(stack: Stack, path: str, more: Mapping[str, str] | None = None, message: bool = False) -> Response:
    """Call a method without a message, or with an empty one if ``message`` is set. Return the response."""
    sent = {name.lower().replace("_", "-"): value for name, value in (more or {}).items()}
    with H2Caller(int(stack.environ[GRPC_PORT])) as caller:
        stream = caller.open({**infer(), ":path": path, **sent})
        if message:
            caller.send(stream, framed(b""), end=True)
        reply = caller.answer(stream)
        assert reply.headers[":status"] == "200"
        return reply


def refused(stack: Stack, path: str, more: Mapping[str, str] | None = None) -> str | None:
    """Return the status of a call that must be refused before its message arrives."""
    return called(stack, path, more).word("grpc-status")


UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT = "16", "7", "3"


@each("path", METHODS + MORE)
def test_every_method_asks_for_a_key_of_its_role(keyed: Stack, path: str) -> None:
    manages = path.startswith(f"{INFERENCE}Repository")
    assert refused(keyed, path) == UNAUTHENTICATED
    assert refused(keyed, path, {"X_API_Key": "wrong"}) == UNAUTHENTICATED
    assert refused(keyed, path, {"Authorization": basic("ci", key("boss"))}) == UNAUTHENTICATED
    assert refused(keyed, path, bearer("ci" if manages else "loader")) == PERMISSION_DENIED
    assert refused(keyed, path, bearer("grafana")) == PERMISSION_DENIED


@pytest.mark.parametrize("spelled", SPELLED)
def test_another_spelling_is_no_way_in(keyed: Stack, spelled: str) -> None:
    for name in ("ModelInfer", "ModelStreamInfer", "RepositoryIndex"):
        path = spelled.format(f"{INFERENCE}{name}"[1 + spelled.startswith("/%69") :])
        assert refused(keyed, path) == UNAUTHENTICATED, path
        if name == "RepositoryIndex":
            assert refused(keyed, path, bearer("ci")) == PERMISSION_DENIED, path


def test_a_key_of_the_role_lets_in(keyed: Stack) -> None:
    reply = called(
        keyed, f"{INFERENCE}ServerReady", {"X_API_Key": key("ci"), "x-amzn-requestid": "by-ci"}, message=True
    )
    assert reply.word("grpc-status") == "0"
    reply = called(keyed, f"{INFERENCE}ModelStatistics", bearer("ci"), message=True)
    assert (reply.word("grpc-status"), str(reply.word("grpc-message"))[:6]) == (INVALID_ARGUMENT, "name: "), "no list"
    assert requests.get(f"{keyed.url}/v2/models/stats", headers=bearer("ci"), timeout=PATIENCE).status_code == 404
    one = requests.get(f"{keyed.url}/v2/models/image_mean/stats", headers=bearer("ci"), timeout=PATIENCE)
    assert [found["name"] for found in one.json()["model_stats"]] == ["image_mean"]
    reply = called(keyed, f"{INFERENCE}RepositoryIndex", {**bearer("loader"), "x-amzn-requestid": "by-loader"}, True)
    assert (reply.word("grpc-status"), reply.word("x-amzn-requestid")) == ("0", "by-loader")
    keyed.wait_until(lambda: bool(re.search(r"request_id=by-loader .*caller=loader", keyed.log)))
    page = requests.get(f"{keyed.url}/metrics", headers=bearer("grafana"), timeout=PATIENCE).text
    assert 'lightbox_caller_requests_total{caller="loader"}' in page


def test_the_name_of_a_caller_cannot_be_forged(keyed: Stack) -> None:
    forged = {**bearer("loader"), "x-lightbox-caller": "boss", "x-amzn-requestid": "forged"}
    assert called(keyed, f"{INFERENCE}RepositoryIndex", forged, message=True).word("grpc-status") == "0"
    keyed.wait_until(lambda: bool(re.search(r"request_id=forged .*caller=loader", keyed.log)))


def test_a_refusal_shows_why_and_is_logged(keyed: Stack) -> None:
    reply = called(keyed, f"{INFERENCE}ModelInfer", {"x-amzn-requestid": "nobody"})
    assert str(reply.word("grpc-message")).startswith("expected a key: ")
    assert (reply.word("lightbox-code"), reply.word("x-amzn-requestid")) == ("unauthenticated", "nobody")
    keyed.wait_until(lambda: bool(re.search(r"request_id=nobody .*error=unauthenticated", keyed.log)))


@pytest.mark.parametrize("path", ["Check", "Watch"])
def test_health_is_open(keyed: Stack, path: str) -> None:
    with H2Caller(int(keyed.environ[GRPC_PORT])) as caller:
        stream = caller.open({**infer(), ":path": f"/{grpc_messages.HEALTH_SERVICE}/{path}"})
        caller.send(stream, framed(b""), end=True)
        caller.wait(lambda: caller[stream].data == framed(b"\x08\x01"))
