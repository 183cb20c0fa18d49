"""Requests and clients that several scenarios send."""

from __future__ import annotations

from benchmark import models, photos
from benchmark.clients.floor import FloorClient
from benchmark.clients.http import HttpClient
from benchmark.servers.stack import Stack

IMAGE = "application/x-image"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
FLOOR = "floor"
DEFAULT_MODEL = ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2")


def lightbox(**settings: str) -> Stack:
    """Return the stack that most scenarios measure: classifier and detector, by default with default settings."""
    return Stack("Lightbox", models.classifiers_and_detector(), (DEFAULT_MODEL, *settings.items()))


def with_front() -> Stack:
    """Return a stack of classifiers with a gRPC front beside nginx."""
    return Stack("Lightbox with its gRPC front", models.classifiers(), (DEFAULT_MODEL,), front=True)


def attributes(model: str, transport: str | None = None) -> str:
    """Return custom attributes that choose model and wire, by default the wire that the server has as its default."""
    return f"tfs-model-name={model}" + (f",tfs-transport={transport}" if transport else "")


def post_image(model: str, transport: str | None = None, body: bytes | None = None) -> HttpClient:
    """Return a client that posts an image, by default the 1024x768 photograph."""
    return HttpClient(body or photos.photo(), IMAGE, headers={ATTRIBUTES: attributes(model, transport)})


def classification_floor(body: bytes | None = None, prepared: bool = False) -> FloorClient:
    """Return the floor of a classification with mobilenet_v2."""
    return FloorClient(
        body or photos.photo(), "mobilenet_v2", "input_tensor", 224, 224, scaling="tf", prepared=prepared
    )


def detection_floor() -> FloorClient:
    """Return the floor of a detection with efficientdet_d1 and the outputs that are needed."""
    return FloorClient(
        photos.photo(),
        "efficientdet_d1",
        "input_tensor",
        640,
        640,
        scaling="none",
        dtype="uint8",
        outputs=models.DETECTIONS,
    )
