"""Stacks that differ in the engine of the embedded model server, and in what else changes the cost of an image."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark import models, photos
from benchmark.clients.base import Load
from benchmark.clients.http import HttpClient
from benchmark.declarations import Experiment, Scale, Variant
from benchmark.scenarios import common
from benchmark.servers.rival import Rival
from benchmark.servers.stack import Stack

MODEL = "mobilenet_v2"
WORKERS = "2"
AUTO = "Lightbox, engine auto"
EQUAL_ANSWERS = {
    "Lightbox, engine tensorflow": {"LIGHTBOX_ENGINE": "tensorflow"},
    AUTO: {"LIGHTBOX_ENGINE": "auto"},
    "Lightbox, engine openvino": {"LIGHTBOX_ENGINE": "openvino"},
}
"""Rows whose answers are those of tensorflow_model_server."""

INT8 = "Lightbox, engine openvino, INT8 (other answers)"
OTHER_ANSWERS = {
    "Lightbox, engine openvino, fast decode (other answers)": {
        "LIGHTBOX_ENGINE": "openvino",
        "LIGHTBOX_OPTIONS": '{"fast_decode": true}',
    },
    INT8: {"LIGHTBOX_ENGINE": "openvino", "LIGHTBOX_OPTIONS": '{"precision": "int8"}'},
}
"""Rows that answer faster with other numbers: they stand beside the comparison, not in it."""

MODELS = {"mobilenet_v3": "MobileNetV3Small", "resnet50": "ResNet-50", "efficientdet_d1": "EfficientDet-D1"}
"""Models that are measured with each engine beside mobilenet_v2, and what they are called."""
PREPARED = "prepared_tensors"
QUANTIZED = (MODEL, "mobilenet_v3", "resnet50")
BOUNDARY = "lightbox-benchmark"
RIVALS = {
    "mobilenet_v3": Rival("FastAPI + ONNX Runtime", "fastapi_onnx.py", ("mobilenet_v3_resize", WORKERS)),
    "resnet50": Rival("LitServe + ONNX Runtime, ResNet-50", "litserve_onnx.py", ("resnet50", WORKERS), "/health"),
}
"""Who else serves one of ``MODELS``; nobody an EfficientDet."""


def stack(name: str, settings: dict[str, str], model: str = MODEL) -> Stack:
    """Return a stack that serves a model alone with two workers, so that its memory can be quoted."""
    common_settings = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": model,
        "SAGEMAKER_GUNICORN_WORKERS": WORKERS,
        "XDG_CACHE_HOME": str(models.MODELS / "cache"),
    }
    folder = models.quantized(model) if name == INT8 else models.alone(model)
    shown = name if model == MODEL else f"{name}, {MODELS.get(model, model)}"
    return Stack(shown, folder, tuple((common_settings | settings).items()))


def variants(model: str = MODEL) -> list[Variant]:
    """Return a row for each engine, and the rows with other answers behind them."""
    rows = EQUAL_ANSWERS | OTHER_ANSWERS
    if model not in QUANTIZED:
        rows.pop(INT8)
    return [Variant(name, stack(name, settings, model), common.post_image(model)) for name, settings in rows.items()]


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Return an experiment for each of ``MODELS``, and one without images; none in a quick run: it makes no models."""
    return scale.pick((), (*(_experiment(model) for model in MODELS), _prepared()))


def _experiment(model: str) -> Experiment:
    rows = variants(model)
    if rival := RIVALS.get(model):
        rows.append(Variant(rival.name, rival, _theirs(rival, photos.photo())))
    clients = 8 if model in RIVALS else 2
    load = Load(120 if model in RIVALS else 16, clients, most_seconds=10)
    title = f"{MODELS[model]} with each engine, {clients} clients"
    return Experiment(f"engines_{model}", title, tuple(rows), load, rounds=3)


def _prepared() -> Experiment:
    """Return prepared tensors in the place of images: what others publish is measured so."""
    rows = []
    for model in (MODEL, "resnet50"):
        headers = {common.ATTRIBUTES: common.attributes(model)}
        client = HttpClient(photos.tensor_npy(224), "application/x-npy", headers=headers)
        for row in variants(model):
            if row.name in (AUTO, INT8):
                precision = "INT8" if row.name == INT8 else "f32"
                rows.append(Variant(prepared_row(model, precision), row.server, client))
    return Experiment(PREPARED, "Prepared tensors, 8 clients", tuple(rows), Load(120, 8, most_seconds=10), rounds=3)


def prepared_row(model: str, precision: str) -> str:
    """Return the name of a row with prepared tensors."""
    return f"{model}, {precision}"


def _theirs(rival: Rival, image: bytes) -> HttpClient:
    if rival.script.startswith("fastapi"):
        return HttpClient(image, "application/octet-stream", "/binary/")
    return post_form(image)


def post_form(image: bytes) -> HttpClient:
    """Return a client that posts an image as the file of a form, LitServe's way."""
    head = 'Content-Disposition: form-data; name="image"; filename="photo.jpg"\r\nContent-Type: image/jpeg'
    body = f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + image + f"\r\n--{BOUNDARY}--\r\n".encode()
    return HttpClient(body, f"multipart/form-data; boundary={BOUNDARY}", "/predict")
