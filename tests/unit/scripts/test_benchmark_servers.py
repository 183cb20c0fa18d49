"""The memory and CPU time of a server's processes."""

from __future__ import annotations

import os

from benchmark import resources
from support.parameters import each


@each(
    ("command_line", "role"),
    [
        ("nginx: worker process", "nginx"),
        ("/usr/bin/tensorflow_model_server --port=1", "model server"),
        ("python -m lightbox.model_runtime.server --port=1", "model server"),
        ("python -m gunicorn lightbox.serving.worker:wsgi_app()", "gunicorn"),
        ("python -P -m lightbox serve", "supervisor"),
        ("python -P -m lightbox.features.streams.process", "stream worker"),
        (
            "python -P -m lightbox.features.open_inference.grpc.front /tmp/plan.json unix:/tmp/health.sock",
            "gRPC front",
        ),
        ("python rivals/fastapi_onnx.py", "server"),
    ],
)
def test_processes_have_roles(command_line: str, role: str) -> None:
    assert resources.role_of(command_line) == role


def test_what_processes_use_is_read() -> None:
    assert sum(resources.cpu_seconds(os.getpid()).values()) > 0
    assert sum(resources.memory(os.getpid()).values()) > 1_000_000
