"""Peak memory of requests relative to their size, in a separate process: ``python -m support.peaks BYTES [NAME...]``.

Prints a line for each kind of request: its status, and the growth of the process divided by the request's weight.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flask import Flask

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.features.open_inference.dataplane import DataPlane
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc.servicer import InferenceService
from support.costly import BODIES, GRPC, MODELS, Sent, costly_app, post
from support.fake_transport import FakeTransport
from support.fakes import signature
from support.grpc_front import make_pipeline
from support.memory_use import PeakGrowth
from support.patience import PATIENCE

_WARM_UP = 20_000


def main(size: int, names: list[str]) -> None:
    """Print the peaks of requests of about ``size`` bytes, all or some."""
    app = costly_app({"LIGHTBOX_REQUEST_MEMORY_MB": "4096", "SAGEMAKER_GUNICORN_WORKERS": "1"})
    for name, make in BODIES.items():
        if not names or name in names:
            post(app, make(_WARM_UP))
            sent = make(size)
            weight = max(len(sent.body), sent.weight)
            _print(name, weight, partial(_status, app, sent))
    work = _model_infer()
    for name, message in GRPC.items():
        if not names or f"grpc {name}" in names:
            work(message(_WARM_UP))
            data = message(size)
            _print(f"grpc {name}", len(data), partial(work, data))


def _status(app: Flask, sent: Sent) -> int:
    return int(post(app, sent).status_code)


def _print(name: str, weight: int, answer: Callable[[], int]) -> None:
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    growth = PeakGrowth()
    status = answer()
    print(f"{name}: {status} {growth.bytes() / weight:.1f}", flush=True)


def _model_infer() -> Callable[[bytes], int]:
    fake = FakeTransport()
    for model, tensor in MODELS.items():
        fake.serve(signature(model, {"x": tensor}, {"y": tensor}), lambda inputs: {})
    pipeline = make_pipeline(fake, list(MODELS))
    service = InferenceService(DataPlane(pipeline, Path("/nowhere")))
    work = service.work(grpc_messages.method(grpc_messages.INFERENCE_SERVICE, "ModelInfer"))

    def answer(data: bytes) -> int:
        try:
            work(data, lambda header: None, RequestContext(PATIENCE))
        except LightboxError as error:
            return error.status
        return 200

    return answer


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
