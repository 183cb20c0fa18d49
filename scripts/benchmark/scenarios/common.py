"""Stacks and requests shared by scenarios: Lightbox by engine and precision, and the other servers."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark import models, photos
from benchmark.clients import Client
from benchmark.clients.http import HttpClient
from benchmark.declarations import Variant
from benchmark.servers import Rival, Stack

IMAGE = "application/x-image"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
DEFAULT_MODEL = ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2")

MODEL = "mobilenet_v2"
WORKERS = "2"
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
RIVALS = {
    FASTAPI: ("fastapi_onnx.py", "/"),
    LITSERVE: ("litserve_onnx.py", "/health"),
    BENTOML: ("bento_onnx.py", "/readyz"),
}
"""The other servers' scripts, and a path that answers 200 when they are ready."""
BOUNDARY = "lightbox-benchmark"


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
    cache = {"SAGEMAKER_GUNICORN_WORKERS": WORKERS, "XDG_CACHE_HOME": str(models.MODELS / "cache")}
    folder = models.quantized(MODEL) if name == INT8 else models.alone(MODEL)
    return Stack(name, folder, (DEFAULT_MODEL, *(cache | dict(settings)).items()))


def variant(name: str) -> Variant:
    """Return a row of ``EQUAL_RESPONSES`` or ``OTHER_RESPONSES``."""
    return Variant(name, stack(name, (EQUAL_RESPONSES | OTHER_RESPONSES)[name]), post_image(MODEL))


def rival(name: str) -> Variant:
    """Return one of ``RIVALS``; the client uses that server's fastest input format."""
    script, health = RIVALS[name]
    clients: dict[str, Client] = {
        FASTAPI: HttpClient(photos.photo(), "application/octet-stream", "/binary/"),
        LITSERVE: post_form(photos.photo()),
        BENTOML: HttpClient(photos.photo(), "image/jpeg", "/predict"),
    }
    return Variant(name, Rival(name, script, (MODEL, WORKERS), health), clients[name])


def post_form(image: bytes) -> HttpClient:
    """Return a client that posts an image as a form file, as LitServe requires."""
    head = 'Content-Disposition: form-data; name="image"; filename="photo.jpg"\r\nContent-Type: image/jpeg'
    body = f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + image + f"\r\n--{BOUNDARY}--\r\n".encode()
    return HttpClient(body, f"multipart/form-data; boundary={BOUNDARY}", "/predict")
