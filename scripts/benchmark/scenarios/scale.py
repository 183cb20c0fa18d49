"""Scale: how CPU time and memory grow with size and number."""

from __future__ import annotations

from benchmark import models, photos
from benchmark.clients import Load
from benchmark.clients.http import HttpClient
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.servers import Stack

AXES = {
    "concurrency": "clients at once",
    "side": "side in pixels",
    "batch": "images in a batch",
    "models": "loaded models",
}
TRANSPORTS = {"grpc": "gRPC inside", "rest": "REST inside"}


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="scale",
        experiments=(
            *(_concurrency(clients, scale) for clients in scale.pick((1, 8), (1, 4, 8, 64))),
            *(_side(side, scale) for side in scale.pick((224, 2048), (224, 1024, 2048, 4000))),
            *(_batch(count, scale) for count in scale.pick((1, 8), (1, 8, 32))),
            *(_loaded_models(count, scale) for count in scale.pick((1, 10), (1, 100))),
        ),
        axes=AXES,
    )


def _concurrency(clients: int, scale: Scale) -> Experiment:
    load = Load(scale.pick(40, 100 + 10 * clients), clients, most_seconds=scale.pick(3, 5))
    variants = [
        Variant(name, common.lightbox(), common.post_image("mobilenet_v2", transport))
        for transport, name in TRANSPORTS.items()
    ]
    return Experiment("concurrency", f"{clients} clients", tuple(variants), load, x=clients)


def _side(side: int, scale: Scale) -> Experiment:
    client = common.post_image("mobilenet_v2", "grpc", photos.photo(side, side))
    load = Load(scale.pick(4, 20), most_seconds=scale.pick(3, 10))
    variant = Variant("Lightbox gRPC", common.lightbox(), client)
    return Experiment("side", f"{side} x {side} pixels", (variant,), load, scale.pick(1, 2), x=side)


def _batch(count: int, scale: Scale) -> Experiment:
    """One body of raw pixels for ``count`` images, so that the batch dominates, not decoding."""
    body = photos.pixels_npy(count, 224)
    variants = []
    for transport, name in TRANSPORTS.items():
        headers = {common.ATTRIBUTES: common.attributes("mobilenet_v2_uint8", transport)}
        variants.append(Variant(name, common.lightbox(), HttpClient(body, "application/x-npy", headers=headers)))
    load = Load(scale.pick(3, 10), most_seconds=scale.pick(3, 8))
    return Experiment("batch", f"batch of {count}", tuple(variants), load, x=count)


def _loaded_models(count: int, scale: Scale) -> Experiment:
    stack = Stack(f"Lightbox, {count} loaded", models.many_models(count))
    variant = Variant("Lightbox gRPC", stack, common.post_image("model_000", "grpc", photos.photo(16, 16)))
    load = Load(scale.pick(50, 300), most_seconds=10)
    return Experiment("models", f"{count} models", (variant,), load, scale.pick(1, 2), x=count)
