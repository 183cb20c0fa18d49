"""What the model server is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.plan import ModelServerAddress
from lightbox.processes.commands import model_server_flags
from lightbox.settings_loading import load_settings


@pytest.mark.parametrize("fronts", [{}, {"LIGHTBOX_KSERVE_GRPC_PORT": "8081"}])
def test_its_own_limit_of_calls_is_far_above_what_is_sent(fronts: dict[str, str]) -> None:
    settings = load_settings({"SAGEMAKER_GUNICORN_WORKERS": "3", "SAGEMAKER_GUNICORN_THREADS": "20", **fronts})
    flags = model_server_flags(settings, ModelServerAddress(grpc_port=1, rest_port=2), Path("/run"))
    limits = dict(flag.split("=", 1) for flag in flags)
    in_progress = 3 * 20 * (1 + len(fronts))
    assert int(limits["--grpc_max_threads"]) >= 4 * in_progress
    assert int(limits["--rest_api_num_threads"]) >= in_progress
