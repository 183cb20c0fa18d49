"""The memory of a worker's requests."""

from __future__ import annotations

from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import worker_memory

MIB = 1 << 20


def test_the_grpc_front_is_a_worker_too() -> None:
    environ = {"LIGHTBOX_REQUEST_MEMORY_MB": "300", "SAGEMAKER_GUNICORN_WORKERS": "2"}
    assert worker_memory(load_settings(environ)) == 150 * MIB
    assert worker_memory(load_settings({**environ, "LIGHTBOX_KSERVE_GRPC_PORT": "1234"})) == 100 * MIB  # unopened
