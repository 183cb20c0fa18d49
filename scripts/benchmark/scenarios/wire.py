"""Input formats and internal transports: the encoded image, raw pixels, or the prepared tensor."""

from __future__ import annotations

import base64
import json
import struct

from benchmark import models, photos
from benchmark.clients import Load
from benchmark.clients.http import HttpClient
from benchmark.clients.infer import InferClient
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.servers import Stack

INSIDE, FROM_CALLER = "inside", "from_caller"
FORMS = {
    "float32 tensor": "mobilenet_v2",
    "uint8 pixels": "mobilenet_v2_uint8",
    "encoded image": "mobilenet_v2_bytes",
}
SIDE = 224


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario("wire", (_inside(scale), _from_caller(scale)))


def _inside(scale: Scale) -> Experiment:
    variants = [
        Variant(f"{form}, {name}", common.lightbox(), common.post_image(model, transport))
        for form, model in FORMS.items()
        for transport, name in (("rest", "REST"), ("grpc", "gRPC"))
    ]
    calls, rounds = scale.pick((8, 2), (20, 5))
    return Experiment(INSIDE, "Inside: mobilenet_v2 in three forms of input", tuple(variants), Load(calls), rounds)


def _from_caller(scale: Scale) -> Experiment:
    stack = Stack("Lightbox with its gRPC front", models.classifiers(), (common.DEFAULT_MODEL,), front=True)
    image, pixels = photos.photo(), photos.pixels(SIDE)
    tensors = {
        "JPEG as BYTES": _jpeg(image),
        "raw uint8": InferClient("mobilenet_v2_uint8", "UINT8", pixels.shape, pixels.tobytes(), "image"),
        "raw float32": InferClient("mobilenet_v2", "FP32", pixels.shape, pixels.astype("f4").tobytes()),
    }
    variants = [
        Variant("JPEG on /invocations, REST", stack, common.post_image("mobilenet_v2")),
        Variant("JPEG as base64 in JSON, REST", stack, _base64(image)),
    ]
    for form, client in tensors.items():
        variants += [Variant(f"{form}, REST", stack, client.over_rest()), Variant(f"{form}, gRPC", stack, client)]
    calls, rounds = scale.pick((8, 2), (20, 5))
    return Experiment(FROM_CALLER, "From the client: one image at a time", tuple(variants), Load(calls), rounds)


def _jpeg(image: bytes) -> InferClient:
    return InferClient("mobilenet_v2", "BYTES", (1,), struct.pack("<I", len(image)) + image)


def _base64(image: bytes) -> HttpClient:
    encoded = json.dumps({"instances": [{"b64": base64.b64encode(image).decode()}]}).encode()
    headers = {common.ATTRIBUTES: common.attributes("mobilenet_v2")}
    return HttpClient(encoded, "application/json", headers=headers)
