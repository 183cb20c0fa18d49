"""Scale: where cost grows, and how."""

from __future__ import annotations

from benchmark import models, photos
from benchmark.clients.base import Load
from benchmark.clients.http import HttpClient
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.servers.stack import Stack

AXES = {
    "concurrency": "clients at once",
    "side": "side of the image in pixels",
    "batch": "images in a batch",
    "answer": "bytes of the answer's numbers",
    "models": "loaded models",
}
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
SIDES = (224, 512, 1024, 2048, 4000)
BATCHES = (1, 2, 4, 8, 16, 32)
MODELS = (1, 10, 100)


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="scale",
        title="Scale",
        question="How do latency and throughput grow with clients, image size, batch, answer size and the number of "
        "loaded models?",
        experiments=(
            *_concurrency(scale),
            *_sides(scale),
            *_batches(scale),
            *_answers(scale),
            *_loaded_models(scale),
        ),
        axes=AXES,
    )


def _concurrency(scale: Scale) -> list[Experiment]:
    variants = (
        Variant("gRPC inside", common.lightbox(), common.post_image("mobilenet_v2", "grpc")),
        Variant("REST inside", common.lightbox(), common.post_image("mobilenet_v2", "rest")),
    )
    points = scale.pick((1, 8), CLIENTS)
    return [
        Experiment(
            "concurrency",
            f"{clients} clients",
            variants,
            Load(scale.pick(40, 100 + 10 * clients), clients, most_seconds=scale.pick(3, 5)),
            x=clients,
        )
        for clients in points
    ]


def _sides(scale: Scale) -> list[Experiment]:
    experiments = []
    for side in scale.pick((224, 2048), SIDES):
        body = photos.photo(side, side)
        variants = (
            Variant("Lightbox gRPC", common.lightbox(), common.post_image("mobilenet_v2", "grpc", body)),
            Variant(common.FLOOR, common.lightbox(), common.classification_floor(body)),
        )
        load = Load(scale.pick(4, 20), most_seconds=scale.pick(3, 10))
        experiments.append(
            Experiment(
                "side",
                f"{side} x {side} pixels",
                variants,
                load,
                scale.pick(1, 2),
                warm_up=2,
                floor=common.FLOOR,
                counted=scale.pick(0, 1),
                x=side,
            )
        )
    return experiments


def _batches(scale: Scale) -> list[Experiment]:
    experiments = []
    for count in scale.pick((1, 8), BATCHES):
        variants = tuple(
            Variant(f"{name} inside", common.lightbox(), _batch(count, transport))
            for transport, name in (("grpc", "gRPC"), ("rest", "REST"))
        )
        load = Load(scale.pick(3, 10), most_seconds=scale.pick(3, 8))
        counted = scale.pick(0, 1)
        experiments.append(
            Experiment("batch", f"batch of {count}", variants, load, warm_up=2, counted=counted, x=count)
        )
    return experiments


def _batch(count: int, transport: str) -> HttpClient:
    """One body of raw pixels for ``count`` images: what costs is the batch, not its decoding."""
    return HttpClient(
        photos.pixels_npy(count, 224),
        "application/x-npy",
        headers={common.ATTRIBUTES: common.attributes("mobilenet_v2_uint8", transport)},
    )


def _answers(scale: Scale) -> list[Experiment]:
    stack = Stack("Lightbox with models of many answer sizes", models.answers_of_sizes())
    image = photos.photo(16, 16)
    sizes = scale.pick(("4 kB", "1 MB"), tuple(models.ANSWER_FLOATS))
    experiments = []
    for size in sizes:
        variants = tuple(
            Variant(f"{name} inside", stack, common.post_image(models.answer_model(size), transport, image))
            for transport, name in (("grpc", "gRPC"), ("rest", "REST"))
        )
        load = Load(scale.pick(3, 10), most_seconds=scale.pick(4, 8))
        bytes_of_it, counted = 4 * models.ANSWER_FLOATS[size], scale.pick(0, 1)
        experiments.append(
            Experiment("answer", f"answer of {size}", variants, load, warm_up=1, counted=counted, x=bytes_of_it)
        )
    return experiments


def _loaded_models(scale: Scale) -> list[Experiment]:
    experiments = []
    for count in scale.pick((1, 10), MODELS):
        stack = Stack(f"Lightbox with {count} models", models.many_models(count))
        variant = Variant("Lightbox gRPC", stack, common.post_image("model_000", "grpc", photos.photo(16, 16)))
        load = Load(scale.pick(50, 300), most_seconds=10)
        experiments.append(Experiment("models", f"{count} models", (variant,), load, scale.pick(1, 2), x=count))
    return experiments
