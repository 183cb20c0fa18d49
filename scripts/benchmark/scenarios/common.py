"""Stacks and requests shared by scenarios: Lightbox by engine and precision, and the other servers."""

from __future__ import annotations

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
"""Display names of the models beside mobilenet_v2."""
FASTAPI, LITSERVE, BENTOML = "FastAPI + ONNX Runtime", "LitServe + ONNX Runtime", "BentoML + ONNX Runtime"
RIVALS = {FASTAPI: "fastapi_onnx.py", LITSERVE: "litserve_onnx.py", BENTOML: "bento_onnx.py"}
HEALTH = {FASTAPI: "/", LITSERVE: "/health", BENTOML: "/readyz"}
BOUNDARY = "lightbox-benchmark"


def lightbox(**settings: str) -> Stack:
    """Return the stack of most scenarios: classifier and detector, by default with default settings."""
    return Stack("Lightbox", models.classifiers_and_detector(), (DEFAULT_MODEL, *settings.items()))


def attributes(model: str, transport: str | None = None) -> str:
    """Return custom attributes that choose model and wire, by default the server's default wire."""
    return f"tfs-model-name={model}" + (f",tfs-transport={transport}" if transport else "")


def post_image(model: str, transport: str | None = None, body: bytes | None = None) -> HttpClient:
    """Return a client that posts an image, by default the 1024x768 photograph."""
    return HttpClient(body or photos.photo(), IMAGE, headers={ATTRIBUTES: attributes(model, transport)})


def stack(name: str, settings: dict[str, str], model: str = MODEL) -> Stack:
    """Return a stack that serves one model with two workers, so that its memory can be quoted."""
    common_settings = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": model,
        "SAGEMAKER_GUNICORN_WORKERS": WORKERS,
        "XDG_CACHE_HOME": str(models.MODELS / "cache"),
    }
    folder = models.quantized(model) if name == INT8 else models.alone(model)
    shown = name if model == MODEL else f"{name}, {MODELS.get(model, model)}"
    return Stack(shown, folder, tuple((common_settings | settings).items()))


def variants(model: str = MODEL) -> list[Variant]:
    """Return a variant for each engine and, except for a detector, one for INT8."""
    rows = EQUAL_ANSWERS | {INT8: OTHER_ANSWERS[INT8]}
    if model == "efficientdet_d1":
        del rows[INT8]
    return [Variant(name, stack(name, settings, model), post_image(model)) for name, settings in rows.items()]


def rival(name: str, network: str, image: bytes | None = None, workers: str = WORKERS) -> Variant:
    """Return one of ``RIVALS`` with a network; the client uses that server's fastest input format."""
    body = image or photos.photo()
    shown = name if workers == WORKERS else f"{name}, {workers} worker"
    server = Rival(f"{shown}, {network}", RIVALS[name], (network, workers), HEALTH[name])
    clients: dict[str, Client] = {
        FASTAPI: HttpClient(body, "application/octet-stream", "/binary/"),
        LITSERVE: post_form(body),
        BENTOML: HttpClient(body, "image/jpeg", "/predict"),
    }
    return Variant(shown, server, clients[name])


def post_form(image: bytes) -> HttpClient:
    """Return a client that posts an image as a form file, as LitServe requires."""
    head = 'Content-Disposition: form-data; name="image"; filename="photo.jpg"\r\nContent-Type: image/jpeg'
    body = f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + image + f"\r\n--{BOUNDARY}--\r\n".encode()
    return HttpClient(body, f"multipart/form-data; boundary={BOUNDARY}", "/predict")
