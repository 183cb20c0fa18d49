"""The gRPC server: concurrent calls, streams, health, observers and shutdown."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from lightbox.base.telemetry.logs import UNMATCHED
from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference.grpc import messages as grpc_messages
from support.fake_transport import FakeTransport
from support.fakes import channel_means, mean_model
from support.grpc_front import MAX_BYTES, RED, Caller, Watcher, floats, images, serving
from support.patience import PATIENCE, poll

from ....conftest import PassOnce


def open_stream(call: Caller, requests: Iterator[Any]) -> Any:
    request = grpc_messages.message_class("inference.ModelInferRequest")
    return call.channel.stream_stream(
        f"/{grpc_messages.INFERENCE_SERVICE}/ModelStreamInfer",
        request_serializer=lambda fields: (
            fields if isinstance(fields, bytes) else request(**fields).SerializeToString()
        ),
        response_deserializer=grpc_messages.ModelStreamInferResponse.FromString,
    )(requests, timeout=PATIENCE)


def test_a_stream_goes_on_after_an_error(call: Caller) -> None:
    sent = [{**images(b"no image"), "id": "1"}, b"\xff", {**images(bytes(MAX_BYTES)), "id": "3"}, images(RED)]
    bad, odd, large, good = open_stream(call, iter(sent))
    assert "Expected an image" in bad.error_message
    assert bad.infer_response.id == "1"
    assert "is no inference.ModelInferRequest" in odd.error_message
    assert "LIGHTBOX_MAX_BODY_MB=1 MiB" in large.error_message
    assert large.infer_response.id == "3"
    assert floats(good.infer_response) == [200, 0, 0]


def test_idle_streams_hold_up_nobody_and_end_when_the_server_stops(call: Caller) -> None:
    streams = [open_stream(call, iter(queue.Queue().get, None)) for _ in range(20)]
    assert floats(call("ModelInfer", images(RED))) == [200, 0, 0]
    call.stop()
    for stream in streams:
        with pytest.raises(grpc.RpcError, match="the server is stopping") as caught:
            next(stream)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


class Gate:
    """A model that answers once ``opened`` is set."""

    def __init__(self, transport: FakeTransport) -> None:
        self.inside = threading.Semaphore(0)
        self.opened = threading.Event()
        transport.serve(mean_model(), self._predict)

    def _predict(self, inputs: Any) -> Any:
        self.inside.release()
        assert self.opened.wait(PATIENCE)
        return channel_means(inputs)

    def wait_inside(self, count: int) -> None:
        for _ in range(count):
            assert self.inside.acquire(timeout=PATIENCE)


def test_observers_hear_of_every_call(pipeline: Pipeline, tmp_path: Path, watcher: Watcher) -> None:
    with serving(pipeline, tmp_path, [watcher]) as call:
        given = (("x-amzn-requestid", "mine"),)
        answer, rpc = call.with_call("ModelInfer", images(RED), metadata=given)
        good = watcher.requests.get(timeout=PATIENCE)
        call.fails("ModelInfer", images(b"no image"))
        bad = watcher.requests.get(timeout=PATIENCE)
        call("ServerLive")
    assert watcher.requests.empty()
    assert (good.request_id, good.route, good.status) == ("mine", f"/{grpc_messages.INFERENCE_SERVICE}/ModelInfer", 200)
    assert (good.error_code, good.bytes_out, good.context.model) == (None, answer.ByteSize(), "mean")
    assert good.bytes_in > len(RED)
    assert (bad.status, bad.error_code) == (400, "image_undecodable")
    trailing = dict(rpc.trailing_metadata())
    assert (trailing["x-amzn-requestid"], trailing["x-lightbox-model"]) == ("mine", "mean/1")
    times = {name: float(value) for name, value in re.findall(r"(\w+);dur=([\d.]+)", trailing["server-timing"])}
    assert {"decode", "predict", "postprocess", "other"} <= times.keys()
    total = times.pop("total")
    assert sum(times.values()) == pytest.approx(total, abs=0.0005 * (len(times) + 1))
    assert total == pytest.approx(good.context.durations()["total"] * 1000, abs=0.001)


def test_more_calls_than_may_wait_are_turned_away(
    pipeline: Pipeline, transport: FakeTransport, tmp_path: Path, watcher: Watcher
) -> None:
    gate = Gate(transport)
    with serving(pipeline, tmp_path, [watcher], waiting=1) as call:
        asked = [call.future("ModelInfer", images(RED)) for _ in range(2)]
        gate.wait_inside(2)
        # Of two more calls, the first to arrive may wait.
        late = [call.future("ModelInfer", images(RED)) for _ in range(2)]
        refused = watcher.requests.get(timeout=PATIENCE)
        assert (refused.status, refused.error_code) == (503, "queue_full")
        assert call("ServerLive").live
        gate.opened.set()
        assert [floats(answer.result()) for answer in asked] == [[200, 0, 0]] * 2
        assert sorted(answer.code().name for answer in late) == ["OK", "UNAVAILABLE"]


def test_a_call_whose_time_passes_in_the_queue_is_not_begun(
    pipeline: Pipeline, transport: FakeTransport, tmp_path: Path, watcher: Watcher, pass_once: PassOnce
) -> None:
    gate, time_is_over = Gate(transport), threading.Event()
    pass_once(time_is_over.is_set)
    with serving(pipeline, tmp_path, [watcher]) as call:
        busy = [call.future("ModelInfer", images(RED)) for _ in range(2)]
        gate.wait_inside(2)
        third = call.future("ModelInfer", images(RED))
        assert any(call.pool.requests.total == 3 for _ in poll())
        time_is_over.set()
        assert third.code().name == "DEADLINE_EXCEEDED"
        assert watcher.requests.get(timeout=PATIENCE).error_code == "waited_too_long"
        # The calls in progress are answered too, though their threads continue.
        assert {answer.code().name for answer in busy} == {"DEADLINE_EXCEEDED"}
        gate.opened.set()


def test_a_caller_who_hangs_up_in_the_queue_costs_nothing(
    pipeline: Pipeline, transport: FakeTransport, tmp_path: Path, watcher: Watcher
) -> None:
    gate = Gate(transport)
    with serving(pipeline, tmp_path, [watcher]) as call:
        busy = [call.future("ModelInfer", images(RED)) for _ in range(2)]
        gate.wait_inside(2)
        third = call.future("ModelInfer", images(RED))
        assert any(call.pool.requests.total == 3 for _ in poll())
        third.cancel()
        assert watcher.requests.get(timeout=PATIENCE).error_code == "hung_up"
        gate.opened.set()
        assert [answer.code().name for answer in busy] == ["OK", "OK"]


def health(call: Caller, method: str) -> Any:
    make = call.channel.unary_unary if method == "Check" else call.channel.unary_stream
    ask = make(
        f"/{grpc_messages.HEALTH_SERVICE}/{method}",
        request_serializer=grpc_messages.message_class("grpc.health.v1.HealthCheckRequest").SerializeToString,
        response_deserializer=grpc_messages.message_class("grpc.health.v1.HealthCheckResponse").FromString,
    )
    return lambda service="": ask(
        grpc_messages.message_class("grpc.health.v1.HealthCheckRequest")(service=service), timeout=PATIENCE
    )


def test_health_follows_readiness(call: Caller) -> None:
    check = health(call, "Check")
    assert check().status == 1
    call.ready = False
    assert check(grpc_messages.INFERENCE_SERVICE).status == 2
    with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        check("none")


def test_watchers_get_changes(call: Caller) -> None:
    watch = health(call, "Watch")
    ours, unknown = watch(grpc_messages.INFERENCE_SERVICE), watch("none")
    assert next(ours).status == 1
    assert next(unknown).status == 3
    call.ready = False
    assert next(ours).status == 2
    call.ready = True
    assert next(ours).status == 1
    call.ready = False
    call.stop()
    assert next(ours).status == 2
    with pytest.raises(grpc.RpcError, match="the server is stopping"):
        next(ours)


def test_a_method_that_nobody_knows_names_no_route(pipeline: Pipeline, tmp_path: Path, watcher: Watcher) -> None:
    with serving(pipeline, tmp_path, [watcher]) as call:
        for path in ("/inference.GRPCInferenceService/None", "/any.Service/Method"):
            with pytest.raises(grpc.RpcError) as caught:
                call.channel.unary_unary(path)(b"", timeout=PATIENCE)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert caught.value.details() == f"there is no method {path} that takes one message"
            assert watcher.requests.get(timeout=PATIENCE).route == UNMATCHED


def test_the_message_of_a_caller_who_has_hung_up_counts_until_it_is_worked_off(
    pipeline: Pipeline, transport: FakeTransport, tmp_path: Path
) -> None:
    gate = Gate(transport)
    with serving(pipeline, tmp_path) as call:
        busy = call.future("ModelInfer", images(RED + bytes(1000)))
        gate.wait_inside(1)
        held = call.account.held
        busy.cancel()
        assert any(not call.account.calls for _ in poll())
        assert call.account.held == held > 1000
        gate.opened.set()
        assert any(call.account.held == 0 for _ in poll())
