"""ModelInfer over gRPC: good requests, what they must answer, and what became of one as a client sees it."""

from __future__ import annotations

import time
from typing import Any

import grpc
import numpy as np

from lightbox.core.errors import STATUS_OF_CODE
from lightbox.features.open_inference import grpc_messages
from soak.exchange import ANSWER_SECONDS, Check, Fate, Outcome, Request

PATH = f"/{grpc_messages.INFERENCE_SERVICE}/ModelInfer"
FRONT = "gRPC front"
TOLERANCE = 1e-4
_NEVER_SENT = ("failed to connect", "connections to all backends failing")
"""gRPC's words for a call that found no connection: it was not sent."""
_OPTIONS = [
    # One connection each, and a new one soon after it ended: what a caller waits for is the server's doing.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.enable_retries", 0),
]


class InferCaller:
    """A client of the gRPC front with one channel, kept between calls if ``keep``."""

    def __init__(self, target: str, keep: bool) -> None:
        self._target = target
        self._keep = keep
        self._channel: Any = None

    def send(self, request: Request, seconds: float = ANSWER_SECONDS) -> Outcome:
        """Make a call and wait ``seconds`` for its answer; a failed one is an outcome, not an error."""
        started = time.monotonic()
        reused = self._channel is not None
        self._channel = self._channel or grpc.insecure_channel(self._target, options=_OPTIONS)
        try:
            body = self._channel.unary_unary(request.path)(request.body, timeout=seconds)
            fate, status, again, detail = Fate.ANSWERED, 200, False, ""
        except grpc.RpcError as error:
            body, (fate, status, again, detail) = b"", _failed(error)
        if not self._keep:
            self.close()
        ended = time.monotonic()
        return Outcome(request.name, fate, reused, started, ended, status, again, body, detail, held_by=(FRONT,))

    def close(self) -> None:
        """Close the channel; the next call makes a new one."""
        if self._channel is not None:
            self._channel.close()
        self._channel = None


def _failed(error: Any) -> tuple[Fate, int, bool, str]:
    """Tell an answer of the server's, which names its code, from what gRPC itself reports of the connection."""
    detail = f"{error.code().name}: {error.details()}"
    code = dict(error.trailing_metadata() or ()).get("lightbox-code")
    if code is not None:
        return Fate.ANSWERED, STATUS_OF_CODE[code].http, code == "unavailable", detail
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Fate.SILENT, 0, False, detail
    never_sent = any(words in detail for words in _NEVER_SENT)
    return Fate.NOT_CONNECTED if never_sent else Fate.CUT, 0, False, detail


def requests(seven: bytes, photo: bytes) -> list[Request]:
    """Return good calls: images as they are, and rows of numbers as bytes."""
    rows = np.arange(8, dtype="<f4")
    return [
        _request("KServe gRPC digit", "digits", "input_tensor", "BYTES", [1], bytes_contents=[seven]),
        _request("KServe gRPC photo", "mobilenet_v2", "input_tensor", "BYTES", [1], bytes_contents=[photo]),
        _request("KServe gRPC rows", "rows", "x", "FP32", [2, 4], fp32_contents=rows.tolist()),
    ]


def damaged(image: bytes) -> Request:
    """Return a call with what is no image."""
    return _request("bad image, KServe gRPC", "digits", "input_tensor", "BYTES", [1], bytes_contents=[image])


def _request(name: str, model: str, tensor: str, datatype: str, shape: list[int], **contents: Any) -> Request:
    message = grpc_messages.message_class("inference.ModelInferRequest")(model_name=model)
    message.inputs.add(name=tensor, datatype=datatype, shape=shape, contents=contents)
    return Request(name, PATH, body=message.SerializeToString())


def same_as(first: bytes) -> Check:
    """Return a check that an answer's tensors are those of another one."""
    wanted = _tensors(first)

    def check(body: bytes) -> str:
        found = _tensors(body)
        if found.keys() != wanted.keys():
            return f"other outputs: {', '.join(found)}"
        same = all(np.allclose(found[name], wanted[name], TOLERANCE, 1e-6) for name in wanted)
        return "" if same else "another answer"

    return check


def _tensors(body: bytes) -> dict[str, Any]:
    answer = grpc_messages.ModelInferResponse.FromString(body)
    pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
    return {output.name: np.frombuffer(raw, "<f4").reshape(output.shape) for output, raw in pairs}
