"""Attacks that other inference servers had to fix, over REST and gRPC: each gets an error or answer, without harm."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import requests

from lightbox.features.open_inference.grpc import messages as grpc_messages
from support.fakes import png
from support.h2_caller import H2Caller, Response
from support.infer_requests import LENGTH
from support.models import copy_golden
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack, free_port, running

MB = 1 << 20
IMAGE = png(np.zeros((8, 8, 3), np.uint8))
INPUT, OUTPUT = "input_tensor", "probabilities"
"""Of the sample model digits."""
PIXELS = np.zeros((1, 8, 8, 3), np.float32)
ROUTE = "/v2/models/digits/infer"
INFER = f"/{grpc_messages.INFERENCE_SERVICE}/ModelInfer"
GRPC_PORT = "LIGHTBOX_KSERVE_GRPC_PORT"
HUGE = 2**63 - 1


@pytest.fixture(autouse=True)
def next_request_works(stack: Stack) -> Iterator[None]:
    """After each test, check that an ordinary request succeeds and that no internal error was logged."""
    logged = len(stack.log)
    yield
    assert stack.invoke(IMAGE, Content_Type="image/png").status_code == 200
    assert "Traceback" not in stack.log[logged:]


def infer(stack: Stack, body: bytes, **headers: str) -> requests.Response:
    return stack.invoke(body, ROUTE, **headers)


def document(shape: str = "[1,8,8,3]", data: str | None = None, datatype: str = "FP32") -> bytes:
    """Return a JSON request with arbitrary text as its shape and data."""
    values = json.dumps(PIXELS.ravel().tolist()) if data is None else data
    return f'{{"inputs":[{{"name":"{INPUT}","datatype":"{datatype}","shape":{shape},"data":{values}}}]}}'.encode()


def message(**fields: Any) -> Any:
    """Return a ModelInferRequest for one image of zeros, with these fields replaced."""
    tensor = {"name": INPUT, "datatype": "FP32", "shape": PIXELS.shape}
    usual = {"model_name": "digits", "inputs": [tensor], "raw_input_contents": [PIXELS.tobytes()]}
    return grpc_messages.message_class("inference.ModelInferRequest")(**usual | fields)


class Grpc:
    """Calls ModelInfer with messages from a gRPC library."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._call = channel.unary_unary(INFER, response_deserializer=grpc_messages.ModelInferResponse.FromString)

    def __call__(self, sent: Any) -> tuple[Any, Any]:
        """Return the answer and the call's metadata. Raise RpcError on failure."""
        found: tuple[Any, Any] = self._call.with_call(sent.SerializeToString(), timeout=PATIENCE)
        return found

    def refusal(self, sent: Any) -> tuple[str, str]:
        """Return the status and message of a refused call."""
        with pytest.raises(grpc.RpcError) as caught:
            self(sent)
        error: Any = caught.value
        return error.code().name, error.details()


@pytest.fixture
def call(stack: Stack) -> Iterator[Grpc]:
    with grpc.insecure_channel(f"127.0.0.1:{stack.environ[GRPC_PORT]}") as channel:
        yield Grpc(channel)


# Bodies in a very large number of pieces


def in_chunks(count: int) -> bytes:
    """Return a body with an image and more bytes behind it, in ``count`` chunks of one byte."""
    body = IMAGE + bytes(count - len(IMAGE))
    return b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"


def processor_nanoseconds(processes: list[psutil.Process]) -> int:
    return sum(int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) for process in processes)


def rss(processes: list[psutil.Process]) -> int:
    return sum(process.memory_info().rss for process in processes)


def test_a_million_chunks_of_a_byte_cost_what_their_bytes_do(stack: Stack) -> None:
    nginx, workers = stack.processes("nginx: worker"), stack.processes("gunicorn")
    times, growths = [], []

    def send(chunks: bytes) -> None:
        used, held, most = processor_nanoseconds(nginx), rss(nginx + workers), 0
        with socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE) as connection:
            connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\n")
            connection.sendall(b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(chunks), MB // 4):
                connection.sendall(chunks[start : start + MB // 4])
                most = max(most, rss(nginx + workers))
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200 ")
        times.append(processor_nanoseconds(nginx) - used)
        growths.append(max(most, rss(nginx + workers)) - held)

    for count in (100_000, 100_000, 1_000_000):
        send(in_chunks(count))
    assert growths[-1] < 24 * MB  # 24 bytes per chunk
    assert times[-1] < 50 * times[-2]  # quadratic time would be 100 times as long


def call_in_hand(stack: Stack, data: bytes, flag: int = 0, piece: int | None = None, **headers: str) -> Response:
    """Return the response to a call with the message ``data``, sent in DATA frames of ``piece`` bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    fixed = {":method": "POST", ":scheme": "http", ":path": INFER, ":authority": "a", "te": "trailers"}
    sent = bytes([flag]) + len(data).to_bytes(4, "big") + data
    with H2Caller(int(stack.environ[GRPC_PORT])) as caller:
        stream = caller.open(fixed | {"content-type": "application/grpc"} | named)
        for start in range(0, len(sent), piece or len(sent)):
            caller.send(stream, sent[start : start + (piece or len(sent))])
        caller.send(stream, b"", end=True)
        return caller.answer(stream)


def test_a_message_in_frames_of_a_byte_is_answered(stack: Stack) -> None:
    padded = message(id="a" * 20_000).SerializeToString()
    assert call_in_hand(stack, padded, piece=1).word("grpc-status") == "0"


# Compressed bodies that fail


@pytest.fixture(scope="module")
def narrow_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack with one worker and a low limit."""
    folder = tmp_path_factory.mktemp("attacks")
    copy_golden("half_plus_two", folder / "models" / "half_plus_two")
    environ = {"SAGEMAKER_GUNICORN_WORKERS": "1", "LIGHTBOX_MAX_BODY_MB": "8", GRPC_PORT: str(free_port())}
    with running(folder / "models", folder / "run", **environ) as narrow:
        yield narrow


@pytest.fixture(scope="module")
def failing() -> dict[str, tuple[str, bytes, int, str]]:
    noise = random.Random(0).randbytes(4 * MB)
    packed = gzip.compress(noise, 1, mtime=0)
    return {
        "cut off": ("gzip", packed[: len(packed) // 2], 400, "malformed_body"),
        "with another checksum": ("gzip", packed[:-8] + bytes(8), 400, "malformed_body"),
        "no gzip behind a good beginning": ("gzip", packed[: 3 * MB] + noise[:MB], 400, "malformed_body"),
        "cut off, as deflate": ("deflate", zlib.compress(noise, 1)[: 2 * MB], 400, "malformed_body"),
        "beyond the limit": ("gzip", gzip.compress(bytes(64 * MB), 1, mtime=0), 413, "too_large"),
        "of very many parts": ("gzip", gzip.compress(b"", mtime=0) * 20_000, 413, "too_large"),
        "good, and no request": ("gzip", packed, 400, "malformed_body"),
    }


@pytest.mark.extended
@pytest.mark.parametrize("path", ["/invocations", "/v2/models/half_plus_two/infer"])
def test_failed_compressed_bodies_leave_no_memory_behind(
    narrow_stack: Stack, failing: dict[str, tuple[str, bytes, int, str]], path: str
) -> None:
    workers, grown = narrow_stack.processes("gunicorn"), {}

    def fail(kind: str) -> None:
        encoding, body, status, code = failing[kind]
        reply = narrow_stack.invoke(body, path, Content_Encoding=encoding, Content_Type="application/json")
        assert (reply.status_code, reply.json()["code"]) == (status, code), kind

    for kind in failing:
        fail(kind)
    before = rss(workers)
    for kind in failing:
        for _ in range(6):
            fail(kind)
        grown[kind] = (rss(workers) - before) / MB
    assert max(grown.values()) < 24, grown  # each takes about 8 MiB during its check
    assert narrow_stack.invoke(b'{"instances":[1]}', Content_Type="application/json").json() == {"predictions": [3.5]}


@pytest.mark.extended
def test_failed_compressed_messages_leave_no_memory_behind(
    narrow_stack: Stack, failing: dict[str, tuple[str, bytes, int, str]]
) -> None:
    workers, grown = narrow_stack.processes("open_inference.grpc.front"), {}
    kinds = {kind: body for kind, (encoding, body, _, _) in failing.items() if encoding == "gzip"}

    def fail(kind: str) -> None:
        reply = call_in_hand(narrow_stack, kinds[kind], flag=1, grpc_encoding="gzip")
        assert reply.word("grpc-status") not in ("0", None), kind

    for kind in kinds:
        fail(kind)
    before = rss(workers)
    for kind in kinds:
        for _ in range(6):
            fail(kind)
        grown[kind] = (rss(workers) - before) / MB
    assert max(grown.values()) < 24, grown


# Names that servers reserve


EVIL = "evil"
RESERVED: list[dict[str, Any]] = [
    {"binary_data": "no flag"},
    {"binary_data_size": 4},
    {"classification": 0},
    {"classification": -1},
    {"sequence_id": -5, "sequence_start": True, "sequence_end": "x"},
    {"priority": -1, "timeout": 1},
    {"shared_memory_region": "/etc/passwd", "shared_memory_byte_size": 2**63 - 1, "shared_memory_offset": -1},
    {"triton_enable_empty_final_response": True, "triton_final_response": True},
    {"X-Lightbox-Model": EVIL, "X-Lightbox-Received": EVIL, "X-Amzn-RequestId": EVIL, "x-amzn-requestid": EVIL},
    {"request_id": EVIL, "model_name": EVIL, "id": EVIL, "parameters": EVIL, "Server-Timing": EVIL},
    {"grpc-status": "5", "grpc-timeout": "1n", ":path": EVIL, "content-type": EVIL},
    {"tfs-model-name": EVIL, "tfs-model-version": EVIL, "tfs-transport": EVIL, "tfs-method": "regress"},
    {"__class__": EVIL, "__proto__": EVIL, "constructor": EVIL},
    {"": "", "a\r\nX-Evil: 1": "b\r\nX-Evil: 1", "\0": "\0", "a" * 10_000: "b" * 10_000},
]
PLACES = ["the request", "its input", "its output"]
CLASSES = ("classification", "its output")
"""A parameter, and where it means something; 0 asks for the output itself."""


def with_parameters(place: str, parameters: Any) -> dict[str, Any]:
    tensor = {"name": INPUT, "datatype": "FP32", "shape": list(PIXELS.shape)}
    found: dict[str, Any] = {"inputs": [tensor], "outputs": [{"name": OUTPUT}]}
    target = {"the request": found, "its input": tensor, "its output": found["outputs"][0]}[place]
    target["parameters"] = parameters
    return found


NAMES = each("parameters", RESERVED)


@NAMES
def test_reserved_parameters_change_nothing_over_rest(stack: Stack, parameters: dict[str, Any]) -> None:
    plain = infer(stack, document())
    for place in PLACES:
        sent = with_parameters(place, parameters)
        sent["inputs"][0]["data"] = PIXELS.ravel().tolist()
        reply = infer(stack, json.dumps(sent).encode())
        means_something = ("binary_data_size", "its input"), ("binary_data", "its output"), CLASSES
        if any(parameters.get(name) and place == where for name, where in means_something):
            assert (reply.status_code, reply.json()["code"]) == (400, "malformed_body")
        else:
            assert (reply.status_code, reply.content) == (200, plain.content)
            assert reply.headers.keys() == plain.headers.keys()
            assert reply.headers["X-Lightbox-Model"] == plain.headers["X-Lightbox-Model"]
        assert EVIL not in str(reply.headers)


@NAMES
def test_reserved_parameters_change_nothing_over_grpc(call: Grpc, parameters: dict[str, Any]) -> None:
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param"}
    typed = {name: {kinds[type(value)]: value} for name, value in parameters.items()}
    for place in PLACES:
        sent = message(**with_parameters(place, typed))
        if parameters.get(CLASSES[0]) and place == CLASSES[1]:
            assert call.refusal(sent)[0] == "INVALID_ARGUMENT"
            continue
        answer, rpc = call(sent)
        assert answer == call(message())[0]
        metadata = dict(rpc.trailing_metadata())
        assert metadata["x-lightbox-model"] == "digits/1"
        assert EVIL not in str(metadata)


def test_a_parameter_that_begins_as_our_own_and_is_none_is_refused(stack: Stack, call: Grpc) -> None:
    body = document().replace(b'{"inputs"', b'{"parameters":{"tfs-nothing":"1"},"inputs"', 1)
    reply = infer(stack, body)
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")
    assert reply.json()["error"].startswith("custom attribute tfs-nothing: there is no such attribute")
    status, sentence = call.refusal(message(parameters={"tfs-nothing": {"string_param": "1"}}))
    assert (status, sentence) == ("INVALID_ARGUMENT", reply.json()["error"])


# Lengths in the JSON


NO_LENGTHS = [
    *("-1", "-0", "+5", "few", "", "0x10", "1e2", "1_0", "5,6", "5 6", "\u0665"),
    *map(str, (10**12 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**4000, len(document()) + 1)),
]


@each("length", NO_LENGTHS)
def test_a_length_of_the_json_that_cannot_be_is_refused(stack: Stack, length: str) -> None:
    triton = f'application/vnd.sagemaker-triton.binary+json;json-header-size="{length}"'
    for path, name, value, where in (
        (ROUTE, LENGTH, length, LENGTH),
        ("/invocations", "Content-Type", triton, "Content-Type: json-header-size"),
    ):
        headers = {name: value.encode(), "X-Amzn-SageMaker-Custom-Attributes": b"tfs-model-name=digits"}
        reply = requests.post(stack.url + path, document(), headers=headers, timeout=PATIENCE)
        assert (reply.status_code, reply.json()["code"]) == (400, "malformed_body"), reply.text
        assert reply.json()["error"].startswith(f"{where}: ")


@pytest.mark.parametrize("lengths", [("5", "6"), ("{all}", "{all}"), ("{all}", "0")])
def test_several_lengths_of_the_json_are_none(stack: Stack, lengths: tuple[str, str]) -> None:
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(document())}\r\n"
    for length in lengths:
        head += f"{LENGTH}: {length.format(all=len(document()))}\r\n"
    with socket.create_connection(("127.0.0.1", stack.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + b"\r\n" + document())
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "malformed_body"


def test_a_length_that_cuts_the_json_or_leaves_bytes_over_is_refused(stack: Stack) -> None:
    whole = document()
    for body, length in ((whole, len(whole) - 1), (whole + b"x", len(whole))):
        reply = infer(stack, body, **{LENGTH: str(length)})
        assert (reply.status_code, reply.json()["code"]) == (400, "malformed_body")
    assert infer(stack, whole, **{LENGTH: str(len(whole))}).status_code == 200


# Numbers that overflow


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


DEPTHS = (500, 980, 1000, 1020, 5000, 200_000)
"""orjson reads 1024 levels; Python writes fewer."""
BEYOND = {
    "a product of 2**64": ("[4294967296,4294967296]", "[1]", "FP32"),
    "a product of 2**64 by two": ("[4611686018427387904,4]", "[]", "FP32"),
    "a product of 0 beside it": (f"[0,{HUGE},{HUGE}]", "[]", "FP32"),
    "a product of 0 beside it, of BYTES": (f"[{HUGE},0]", "[]", "BYTES"),
    "dimensions of 2**63": (f"[{2**63}]", "[1]", "FP32"),
    "dimensions of 2**200": (f"[{2**200}]", "[1]", "FP32"),
    "dimensions below 0": ("[-1]", "[1]", "FP32"),
    "two dimensions below 0": ("[-8,-8]", None, "FP32"),
    "dimensions that are no integers": ("[1.0,8,8,3]", None, "FP32"),
    "dimensions that are flags": ("[true,8,8,3]", None, "FP32"),
    "very many dimensions": (f"[{'1,' * 10_000}1]", "[1]", "FP32"),
    "no list of dimensions": ('"1"', "[1]", "FP32"),
    "no dimensions, and two values": ("[]", "[1,2]", "FP32"),
    "no dimensions, and no list": ("[]", "1", "FP32"),
    "an integer beyond its datatype": ("[1]", "[300]", "UINT8"),
    "an integer below its datatype": ("[1]", "[-1]", "UINT64"),
    "an integer beyond 64 bits": ("[1]", f"[{2**64}]", "UINT64"),
    "an integer of 5000 digits": ("[1]", f"[{'9' * 5000}]", "INT64"),
    "a fraction for an integer": ("[1]", "[1.5]", "INT32"),
    "a number beyond a double": ("[1]", "[1e999]", "FP64"),
    "a number beyond a double, below 0": ("[1]", "[-1e999]", "FP32"),
    "a number beyond a float": ("[1]", "[1e39]", "FP32"),
    **{f"lists of depth {depth}": ("[1]", nested(depth), "FP32") for depth in DEPTHS},
    **{f"a shape of depth {depth}": (nested(depth), "[1]", "FP32") for depth in DEPTHS},
    "lists that do not end": ("[1]", "[" * 200_000, "FP32"),
}


@each(("shape", "data", "datatype"), BEYOND.values())
def test_numbers_that_overflow_are_refused(stack: Stack, shape: str, data: str | None, datatype: str) -> None:
    reply = infer(stack, document(shape, data, datatype))
    assert reply.status_code == 400, reply.text
    assert reply.json()["code"] in ("input_mismatch", "malformed_body")
    assert len(reply.json()["error"]) < 500


@each("depth", DEPTHS)
@each(
    "field",
    ['"id":%s', '"outputs":%s', '"parameters":%s', '"parameters":{"a":%s}', '"parameters":{"binary_data_output":%s}'],
)
def test_what_is_nested_deep_is_refused_wherever_it_stands(stack: Stack, field: str, depth: int) -> None:
    body = document().replace(b"{", b"{" + (field % nested(depth)).encode() + b",", 1)
    reply = infer(stack, body)
    # Handlers define parameters, in any form. From Python 3.12 on, a parameter may be nested deeper.
    if "a" in field and (depth == 500 or '"a"' in field):
        assert reply.status_code in (200, 400)
    else:
        assert (reply.status_code, reply.json()["code"]) == (400, "malformed_body")


@each("shape", [[0, HUGE, HUGE], [HUGE, 0], [2**32, 2**32], [2**32, 2**31], [-1], [-(2**63)], [1] * 33])
@each("datatype", ["FP32", "BYTES"])
@each("is_raw", [True, False])
def test_shapes_that_overflow_are_refused_over_grpc(call: Grpc, shape: list[int], datatype: str, is_raw: bool) -> None:
    tensor = {"name": INPUT, "datatype": datatype, "shape": shape}
    fields: dict[str, Any] = {"raw_input_contents": [b""] if is_raw else []}
    status, sentence = call.refusal(message(inputs=[tensor], **fields))
    assert (status, sentence.partition(":")[0]) == ("INVALID_ARGUMENT", f"input {INPUT}")


@each("size", ["-4", "9223372036854775808", "1e3", '"-4"', "true", "[4]", '"4,4"', f'"{"9" * 4000}"'])
def test_sizes_of_blobs_that_cannot_be_are_refused(stack: Stack, size: str) -> None:
    head = (
        f'{{"inputs":[{{"name":"{INPUT}","datatype":"FP32","shape":[1],"parameters":{{"binary_data_size":{size}}}}}]}}'
    )
    reply = infer(stack, head.encode() + bytes(4), **{LENGTH: str(len(head))})
    assert reply.status_code == 400
    assert reply.json()["code"] in ("malformed_body", "input_mismatch")


@pytest.mark.parametrize("path", ["/v2//models/digits/infer", "/v2/models//", "/endpoints//invocations"])
def test_a_path_of_two_slashes_leads_nowhere_and_not_to_another_host(stack: Stack, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=PATIENCE)
    try:
        connection.request("POST", path, IMAGE, {"Host": "evil.example"})
        reply = connection.getresponse()
        assert (reply.status, json.loads(reply.read())["code"]) == (404, "route_not_found")
    finally:
        connection.close()
