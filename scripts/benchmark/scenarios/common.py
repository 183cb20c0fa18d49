"""Stacks and requests shared by scenarios: Lightbox by engine and precision, and the other servers."""

from __future__ import annotations

from collections.abc import Mapping

from urllib3 import encode_multipart_formdata

from benchmark import models, photos
from benchmark.clients.http import HttpClient
from benchmark.declarations import Variant
from benchmark.rivals import WORKERS
from benchmark.servers import Rival, Stack

IMAGE = "application/x-image"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
DEFAULT_MODEL = ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2")

MODEL = "mobilenet_v2"
AUTO = "Lightbox, engine auto"
EQUAL_RESPONSES = {
    "Lightbox, engine tensorflow": {"LIGHTBOX_ENGINE": "tensorflow"},
    AUTO: {"LIGHTBOX_ENGINE": "auto"},
    "Lightbox, engine openvino": {"LIGHTBOX_ENGINE": "openvino"},
}
"""Rows whose answers are those of tensorflow_model_server."""

INT8 = "Lightbox, engine openvino, INT8 (other answers)"
OTHER_RESPONSES = {
    "Lightbox, engine openvino, fast decode (other answers)": {
        "LIGHTBOX_ENGINE": "openvino",
        "LIGHTBOX_OPTIONS": '{"fast_decode": true}',
    },
    INT8: {"LIGHTBOX_ENGINE": "openvino", "LIGHTBOX_OPTIONS": '{"precision": "int8"}'},
}
"""Rows that answer faster with other numbers: they stand beside the comparison, not in it."""

FASTAPI, LITSERVE, BENTOML = "FastAPI + ONNX Runtime", "LitServe + ONNX Runtime", "BentoML + ONNX Runtime"


def lightbox(**settings: str) -> Stack:
    """Return the stack of most scenarios: the three classifiers, by default with default settings."""
    return Stack("Lightbox", models.classifiers(), (DEFAULT_MODEL, *settings.items()))


def attributes(model: str, transport: str | None = None) -> str:
    """Return custom attributes that choose model and transport, by default the server's default transport."""
    return f"tfs-model-name={model}" + (f",tfs-transport={transport}" if transport else "")


def post_image(model: str, transport: str | None = None, body: bytes | None = None) -> HttpClient:
    """Return a client that posts an image, by default the 1024x768 photograph."""
    return HttpClient(body or photos.photo(), IMAGE, headers={ATTRIBUTES: attributes(model, transport)})


def stack(name: str, settings: Mapping[str, str]) -> Stack:
    """Return a stack that serves ``MODEL`` alone with two workers, so that its memory can be quoted."""
    cache = {"SAGEMAKER_GUNICORN_WORKERS": str(WORKERS), "XDG_CACHE_HOME": str(models.MODELS / "cache")}
    folder = models.quantized(MODEL) if name == INT8 else models.alone(MODEL)
    return Stack(name, folder, (DEFAULT_MODEL, *(cache | dict(settings)).items()))


def variant(name: str) -> Variant:
    """Return a row of ``EQUAL_RESPONSES`` or ``OTHER_RESPONSES``."""
    return Variant(name, stack(name, (EQUAL_RESPONSES | OTHER_RESPONSES)[name]), post_image(MODEL))


def rival(name: str, **settings: str) -> Variant:
    """Return a row of another server; the client uses that server's fastest input format."""
    more = tuple(settings.items())
    photo = photos.photo()
    form, form_type = encode_multipart_formdata({"image": ("photo.jpg", photo, "image/jpeg")})
    rivals = {
        FASTAPI: (Rival(name, "fastapi_onnx.py", "/", more), HttpClient(photo, "application/octet-stream", "/binary/")),
        LITSERVE: (Rival(name, "litserve_onnx.py", "/health", more), HttpClient(form, form_type, "/predict")),
        BENTOML: (Rival(name, "bento_onnx.py", "/readyz", more), HttpClient(photo, "image/jpeg", "/predict")),
    }
    return Variant(name, *rivals[name])
