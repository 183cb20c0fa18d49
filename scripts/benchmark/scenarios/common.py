"""Stacks and requests that several scenarios have."""

from __future__ import annotations

from benchmark import models, photos
from benchmark.clients.http import HttpClient
from benchmark.servers import Stack

IMAGE = "application/x-image"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
DEFAULT_MODEL = ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2")


def lightbox(**settings: str) -> Stack:
    """Return the stack that most scenarios measure: classifier and detector, by default with default settings."""
    return Stack("Lightbox", models.classifiers_and_detector(), (DEFAULT_MODEL, *settings.items()))


def attributes(model: str, transport: str | None = None) -> str:
    """Return custom attributes that choose model and wire, by default the wire that the server has as its default."""
    return f"tfs-model-name={model}" + (f",tfs-transport={transport}" if transport else "")


def post_image(model: str, transport: str | None = None, body: bytes | None = None) -> HttpClient:
    """Return a client that posts an image, by default the 1024x768 photograph."""
    return HttpClient(body or photos.photo(), IMAGE, headers={ATTRIBUTES: attributes(model, transport)})
