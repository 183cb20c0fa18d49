"""Filter and edit the log lines of a model server, and read them."""

from __future__ import annotations

from pathlib import Path

from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.supervisor.watching.model_server_log import ModelServerLog, unloadable
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


RECORDED = (
    "1 model(s) did not become available: {{{name: m version: 1} due to error: "
    "DATA_LOSS: Can't parse /run/m/1/saved_model.pb as binary proto}, }"
)
"""The message of tensorflow_model_server 2.19.1, with another path."""


def test_a_model_that_the_server_cannot_load_is_named_with_its_folder() -> None:
    model = PlannedModel(name="m", base_path=Path("/run/m"), options=ModelOptions(), versions_dir=Path("/models/m"))
    assert unloadable(f"a line before\n{RECORDED}\nand one after", {"m": model}) == (
        "LIGHTBOX_MODEL_DIR: version 1 of the model 'm' in /models/m cannot be loaded: "
        "DATA_LOSS: Can't parse /models/m/1/saved_model.pb as binary proto"
    )
    assert unloadable(RECORDED, {"other": model}) is None
    assert unloadable("Failed to start server", {"m": model}) is None
