"""Filter and edit the log lines of a model server."""

from __future__ import annotations

from pathlib import Path

from lightbox.supervisor.watching.model_server_log import ModelServerLog
from support.parameters import each

EMBEDDED, REAL = "2026-11-25 04:00:09,534 ", "2026-11-25 04:00:09.534123: "
MODELS = Path("/tmp/lightbox-1/models")


@each(
    ("line", "logged"),
    [
        (f"{EMBEDDED}I Loading servable version {{name: a version: 1}}", None),
        (f"{REAL}I tensorflow_serving/core/loader_harness.cc:95] Successfully loaded", None),
        ("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR", None),
        ("I0000 00:00:1732507209.5 gpu_device.cc:2021] Created", None),
        (f"{EMBEDDED}I engine of {MODELS}/a/1, signature s: auto (x)", "I engine of a/1, signature s: auto (x)"),
        (f"{EMBEDDED}E Loading servable: {MODELS}/a/1 failed", "E Loading servable: a/1 failed"),
        (f"{REAL}W tensorflow/core/x.cc:1] odd", "W tensorflow/core/x.cc:1] odd"),
        ("ModuleNotFoundError: No module named 'grpc'", "ModuleNotFoundError: No module named 'grpc'"),
    ],
)
def test_what_is_logged_without_its_own_time_and_models_by_name(line: str, logged: str | None) -> None:
    assert ModelServerLog(MODELS, verbose=False).edit(line) == logged


def test_a_verbose_log_has_every_record() -> None:
    edit = ModelServerLog(MODELS, verbose=True).edit
    assert edit(f"{EMBEDDED}I Loading servable version") == "I Loading servable version"
