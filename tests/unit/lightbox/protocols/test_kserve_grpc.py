"""The gRPC form over a fake model server: a real server and channel, on a socket of its own."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton

from lightbox import errors
from lightbox.model_options import ModelOptions
from lightbox.pipeline import Pipeline
from lightbox.plan import ModelServerAddress, PlannedModel, ServingPlan
from lightbox.protocols.kserve import messages
from lightbox.protocols.kserve.repository import Repository
from lightbox.protocols.kserve_grpc.calls import Desk
from lightbox.protocols.kserve_grpc.front import Front
from lightbox.protocols.kserve_grpc.readiness import Readiness
from lightbox.protocols.kserve_grpc.service import InferenceService
from lightbox.settings_loading import load_settings
from lightbox.telemetry.request_log import Observer
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, mean_model, png, signature

RED = png(np.full((4, 4, 3), (200, 0, 0)))
BLUE = png(np.full((9, 5, 3), (0, 0, 100)))
TYPED = {
    "bool": "bool_contents",
    **dict.fromkeys(("int8", "int16", "int32"), "int_contents"),
    "int64": "int64_contents",
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint_contents"),
    "uint64": "uint64_contents",
    "float32": "fp32_contents",
    "float64": "fp64_contents",
}
DTYPES = [*TYPED, "float16"]
MAX_BYTES = 1 << 20
T = TypeVar("T")


class Caller:
    """Calls the service through a channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.ready = True
        self.stop: Callable[[], None] = lambda: None

    def __call__(self, method: str, request: Any = None, **kwargs: Any) -> Any:
        (found,) = [m for m in messages.methods_of(messages.INFERENCE_SERVICE) if m.name == method]
        request_class = messages.message_class(found.input_type.full_name)
        call = self.channel.unary_unary(
            f"/{messages.INFERENCE_SERVICE}/{method}",
            request_serializer=request_class.SerializeToString,
            response_deserializer=messages.message_class(found.output_type.full_name).FromString,
        )
        return call(request_class(**(request or {})), timeout=30, **kwargs)

    def fails(self, method: str, request: Any = None) -> tuple[str, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self(method, request)
        error: Any = caught.value
        return error.code().name, error.details()


@pytest.fixture
def transport() -> FakeTransport:
    fake = FakeTransport()
    fake.serve(mean_model(), channel_means)
    for dtype in DTYPES:
        spec = signature(dtype, {"x": (dtype, (None, 2))}, {"y": (dtype, (None, 2)), "z": (dtype, (None, 2))})
        fake.serve(spec, lambda inputs: {"y": inputs["x"], "z": inputs["x"]})
    return fake


@pytest.fixture
def call(transport: FakeTransport, tmp_path: Path) -> Iterator[Caller]:
    plan = ServingPlan(
        models={
            name: PlannedModel(name=name, base_path=Path("/m"), options=ModelOptions()) for name in ("mean", *DTYPES)
        },
        default_model="mean",
        model_servers=(ModelServerAddress(grpc_port=1, rest_port=2),),
    )
    pipeline = Pipeline(load_settings({}), plan, {"grpc": transport})
    address = f"unix:{tmp_path}/front.sock"
    with serving(pipeline, address) as caller:
        yield caller


@contextmanager
def serving(pipeline: Pipeline, address: str, observers: Sequence[Observer] = (), **desk: int) -> Iterator[Caller]:
    """Run the server in a thread of its own, two calls in progress and two waiting unless ``desk`` says otherwise."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    async def start() -> Front:
        async def is_ready() -> bool:
            return caller.ready

        front = Front(
            InferenceService(pipeline, Repository(pipeline)),
            Desk(**{"in_progress": 2, "waiting": 2, **desk}, observers=observers),
            Readiness(is_ready, asyncio.Event()),
            allowed_seconds=30,
            max_bytes=MAX_BYTES,
        )
        front.server.add_insecure_port(address)
        await front.server.start()
        return front

    with grpc.insecure_channel(address) as channel:
        caller = Caller(channel)
        front = run(start())
        caller.stop = lambda: run(front.stop(5))
        yield caller
        caller.stop()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def images(*bodies: bytes) -> dict[str, Any]:
    contents = {"bytes_contents": bodies}
    entry = {"name": "image", "datatype": "BYTES", "shape": [len(bodies)], "contents": contents}
    return {"model_name": "mean", "inputs": [entry]}


def prefixed(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def floats(answer: Any) -> list[float]:
    return [float(value) for value in np.frombuffer(answer.raw_output_contents[0], "<f4")]


def test_field_numbers_are_the_published_ones() -> None:
    published = triton.service_pb2.DESCRIPTOR.message_types_by_name
    ours = messages.file_with("inference.ModelInferRequest").message_types_by_name

    def fields(message: Any) -> dict[str, Any]:
        own = {field.name: (field.number, field.type, field.is_repeated) for field in message.fields}
        nested = {nested.name: fields(nested) for nested in message.nested_types}
        return own | nested

    def check(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
        for name, found in mine.items():
            if isinstance(found, dict):
                check(found, theirs[name])
            else:
                assert theirs[name] == found, name

    assert len(ours) == 22
    for name, message in ours.items():
        check(fields(message), fields(published[name]))


@pytest.mark.parametrize("raw", [False, True])
def test_images_bare_or_prefixed(call: Caller, raw: bool) -> None:
    request = images(RED, BLUE)
    if raw:
        del request["inputs"][0]["contents"]
        request["raw_input_contents"] = [prefixed(RED, BLUE)]
    answer = call("ModelInfer", {**request, "id": "9", "parameters": {"priority": {"uint64_param": 1}}})
    assert floats(answer) == [200, 0, 0, 0, 0, 100]
    assert (answer.id, answer.model_name, answer.model_version) == ("9", "mean", "1")
    (output,) = answer.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("mean", "FP32", [2, 3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("raw", [False, True])
def test_every_datatype(call: Caller, transport: FakeTransport, dtype: str, raw: bool) -> None:
    array: Any = np.array([[0, 1], [1, 1]], dtype)
    entry: dict[str, Any] = {"name": "x", "datatype": dtype.upper().replace("FLOAT", "FP"), "shape": [2, 2]}
    request: dict[str, Any] = {"model_name": dtype, "inputs": [entry], "outputs": [{"name": "z"}]}
    if raw:
        request["raw_input_contents"] = [array.tobytes()]
    elif dtype == "float16":
        assert "no typed contents" in call.fails("ModelInfer", request)[1]
        return
    else:
        entry["contents"] = {TYPED[dtype]: array.ravel().tolist()}
    answer = call("ModelInfer", request)
    assert list(answer.raw_output_contents) == [array.tobytes()]
    assert [output.name for output in answer.outputs] == ["z"]
    assert transport.calls[-1].outputs == ("z",)


def floats_input(**changes: Any) -> dict[str, Any]:
    contents = {"fp32_contents": [1, 2]}
    return {
        "model_name": "float32",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "contents": contents, **changes}],
    }


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (images(b"no image"), "no image"),
        ({**images(RED), "raw_input_contents": [prefixed(RED)]}, "got both"),
        (floats_input(shape=[1, 3]), "holds 3 values, got 2"),
        (floats_input(shape=[2]), "expected shape [-1,2], got [2]"),
        (floats_input(datatype="FP31"), "FP31"),
        (floats_input(datatype="FP64"), "comes in fp64_contents"),
        (floats_input(name="q"), "got q"),
        ({**floats_input(), "outputs": [{"name": "q"}]}, "got q"),
        ({"model_name": "float32"}, "got none"),
    ],
)
def test_what_cannot_be_used_is_said(call: Caller, request_: dict[str, Any], words: str) -> None:
    code, details = call.fails("ModelInfer", request_)
    assert code == "INVALID_ARGUMENT"
    assert words in details


@pytest.mark.parametrize("method", ["ModelInfer", "ModelMetadata", "ModelReady"])
def test_unknown_models_and_versions(call: Caller, method: str) -> None:
    name, version = ("model_name", "model_version") if method == "ModelInfer" else ("name", "version")
    assert call.fails(method, {name: "none"})[0] == "NOT_FOUND"
    assert call.fails(method, {name: "mean", version: "7"})[0] == "NOT_FOUND"
    assert call.fails(method, {name: "mean", version: "x"})[0] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Unavailable("x"), "UNAVAILABLE"),
        (errors.DeadlineExceeded("x"), "DEADLINE_EXCEEDED"),
        (errors.ModelFailed("x"), "INTERNAL"),
        (errors.TooLarge("x"), "RESOURCE_EXHAUSTED"),
        (RuntimeError("secret"), "INTERNAL"),
    ],
)
def test_errors_have_the_tables_status(call: Caller, transport: FakeTransport, error: Exception, code: str) -> None:
    def fail(inputs: Any) -> Any:
        raise error

    transport.serve(mean_model(), fail)
    found, details = call.fails("ModelInfer", images(RED))
    assert found == code
    assert "secret" not in details


def test_a_message_beyond_the_limit(call: Caller) -> None:
    assert call.fails("ModelInfer", images(bytes(MAX_BYTES + 1)))[0] == "RESOURCE_EXHAUSTED"


def test_server_and_models_describe_themselves(call: Caller) -> None:
    assert call("ServerLive").live
    assert call("ServerReady").ready
    assert call("ModelReady", {"name": "mean"}).ready
    assert "binary_tensor_data" in call("ServerMetadata").extensions
    (tensor,) = call("ModelMetadata", {"name": "mean"}).inputs
    assert (tensor.name, tensor.datatype, list(tensor.shape)) == ("image", "UINT8", [-1, 4, 4, 3])
    assert len(call("RepositoryIndex").models) == len(DTYPES) + 1
    assert call.fails("RepositoryModelLoad", {"model_name": "mean"})[0] == "UNIMPLEMENTED"


def test_a_stream_goes_on_after_an_error(call: Caller) -> None:
    request = messages.message_class("inference.ModelInferRequest")
    stream = call.channel.stream_stream(
        f"/{messages.INFERENCE_SERVICE}/ModelStreamInfer",
        request_serializer=request.SerializeToString,
        response_deserializer=messages.ModelStreamInferResponse.FromString,
    )
    bad, good = stream(iter([request(**images(b"no image")), request(**images(RED))]), timeout=30)
    assert "no image" in bad.error_message
    assert floats(good.infer_response) == [200, 0, 0]


def test_health_follows_readiness(call: Caller) -> None:
    request = messages.message_class("grpc.health.v1.HealthCheckRequest")
    check = call.channel.unary_unary(
        f"/{messages.HEALTH_SERVICE}/Check",
        request_serializer=request.SerializeToString,
        response_deserializer=messages.message_class("grpc.health.v1.HealthCheckResponse").FromString,
    )
    assert check(request(), timeout=30).status == 1
    call.ready = False
    assert check(request(service=messages.INFERENCE_SERVICE), timeout=30).status == 2
    with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        check(request(service="none"), timeout=30)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_names_services_and_gives_their_files(call: Caller, version: str) -> None:
    request = messages.message_class("grpc.reflection.v1.ServerReflectionRequest")
    ask = call.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=request.SerializeToString,
        response_deserializer=messages.message_class("grpc.reflection.v1.ServerReflectionResponse").FromString,
    )
    questions = [
        request(list_services=""),
        request(file_containing_symbol=messages.INFERENCE_SERVICE),
        request(file_by_filename="none"),
        request(all_extension_numbers_of_type="none"),
    ]
    listed, file, missing, unknown = ask(iter(questions), timeout=30)
    assert messages.INFERENCE_SERVICE in {service.name for service in listed.list_services_response.service}
    assert b"ModelInferRequest" in file.file_descriptor_response.file_descriptor_proto[0]
    assert (missing.error_response.error_code, unknown.error_response.error_code) == (5, 12)
