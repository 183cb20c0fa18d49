"""Stacks that differ in the engine of the embedded model server, and in what else changes the cost of an image."""

from __future__ import annotations

from benchmark import models
from benchmark.declarations import Variant
from benchmark.scenarios import common
from benchmark.servers.stack import Stack

MODEL = "mobilenet_v2"
EQUAL_ANSWERS = {
    "Lightbox, engine tensorflow": {"LIGHTBOX_ENGINE": "tensorflow"},
    "Lightbox, engine auto": {"LIGHTBOX_ENGINE": "auto"},
    "Lightbox, engine openvino": {"LIGHTBOX_ENGINE": "openvino"},
}
"""Rows whose answers are those of tensorflow_model_server."""

OTHER_ANSWERS = {
    "Lightbox, engine openvino, fast decode (other answers)": {
        "LIGHTBOX_ENGINE": "openvino",
        "LIGHTBOX_FAST_DECODE": "true",
    },
}
"""Rows that answer faster with other numbers: they stand beside the comparison, not in it."""


def stack(name: str, settings: dict[str, str]) -> Stack:
    """Return a stack that serves mobilenet_v2 alone with two workers, so that its memory can be quoted."""
    workers = {"SAGEMAKER_GUNICORN_WORKERS": "2"}
    cache = {"LIGHTBOX_ENGINE_CACHE_DIR": str(models.MODELS / "engine_cache")}
    return Stack(name, models.one_classifier(), (common.DEFAULT_MODEL, *(workers | cache | settings).items()))


def variants() -> list[Variant]:
    """Return a row for each engine, and the rows with other answers behind them."""
    rows = EQUAL_ANSWERS | OTHER_ANSWERS
    return [Variant(name, stack(name, settings), common.post_image(MODEL)) for name, settings in rows.items()]
