"""Input formats and internal wires: the encoded image, raw pixels, or the prepared tensor."""

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

INSIDE, FROM_CALLER, TOGETHER, KEPT = "inside", "from_caller", "together", "kept"
FORMS = {
    "float32 tensor": "mobilenet_v2",
    "uint8 pixels": "mobilenet_v2_uint8",
    "encoded image": "mobilenet_v2_bytes",
}
SIDE = 224
CLIENTS = 20


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="wire",
        minutes=scale.pick(0.4, 1.5),
        experiments=(
            _inside(scale),
            _from_caller(scale),
            _together(scale),
            *(_kept(*size, scale) for size in scale.pick(((1024, 768),), ((1024, 768), (4000, 3000)))),
        ),
    )


def _inside(scale: Scale) -> Experiment:
    variants = [
        Variant(f"{form}, {name}", common.lightbox(), common.post_image(model, transport))
        for form, model in FORMS.items()
        for transport, name in (("rest", "REST"), ("grpc", "gRPC"))
    ]
    calls, rounds = scale.pick((8, 2), (20, 5))
    return Experiment(INSIDE, "Inside: mobilenet_v2 in three forms of input", tuple(variants), Load(calls), rounds)


def _with_front() -> Stack:
    return Stack("Lightbox with its gRPC front", models.classifiers(), (common.DEFAULT_MODEL,), front=True)


def _from_caller(scale: Scale) -> Experiment:
    stack, image, pixels = _with_front(), photos.photo(), photos.pixels(SIDE)
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


def _together(scale: Scale) -> Experiment:
    stack, image = _with_front(), photos.photo(1280, 720)
    variants = (
        Variant("base64, REST", stack, _base64(image)),
        Variant("binary, REST", stack, common.post_image("mobilenet_v2", body=image)),
        Variant("binary, gRPC", stack, _jpeg(image)),
    )
    load = Load(CLIENTS * scale.pick(2, 10), CLIENTS, waves=True)
    return Experiment(TOGETHER, "From the client: twenty at once, 1280x720", variants, load)


def _kept(width: int, height: int, scale: Scale) -> Experiment:
    image, stack = photos.photo(width, height), common.lightbox(LIGHTBOX_SESSIONS="true")
    headers = {common.ATTRIBUTES: common.attributes("mobilenet_v2")}
    part = {common.ATTRIBUTES: f"{headers[common.ATTRIBUTES]},tfs-crop=0,0,224,224"}
    calls, rounds = scale.pick((8, 1), (20, 4))
    return Experiment(
        key=f"{KEPT}_{width}x{height}",
        title=f"From the client: one {width}x{height} JPEG, sent each time or kept in a session",
        variants=(
            Variant("sent", stack, HttpClient(image, common.IMAGE, headers=headers)),
            Variant("kept in a session", stack, HttpClient(image, common.IMAGE, headers=headers, kept=True)),
            Variant("kept, a part of 224x224", stack, HttpClient(image, common.IMAGE, headers=part, kept=True)),
        ),
        load=Load(calls),
        rounds=rounds,
    )


def _jpeg(image: bytes) -> InferClient:
    return InferClient("mobilenet_v2", "BYTES", (1,), struct.pack("<I", len(image)) + image)


def _base64(image: bytes) -> HttpClient:
    encoded = json.dumps({"instances": [{"b64": base64.b64encode(image).decode()}]}).encode()
    headers = {common.ATTRIBUTES: common.attributes("mobilenet_v2")}
    return HttpClient(encoded, "application/json", headers=headers)
