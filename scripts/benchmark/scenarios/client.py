"""From the client: structured data, base64 or bytes, over REST or gRPC, twenty requests at once; and one by one, the
forms in which the Open Inference Protocol carries an image."""

from __future__ import annotations

import base64
import json
import struct
from functools import lru_cache

from benchmark import photos
from benchmark.clients.base import Load
from benchmark.clients.echo import EchoClient
from benchmark.clients.http import HttpClient
from benchmark.clients.infer import InferClient
from benchmark.clients.session import KeptImage
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.servers.rival import Rival

FORMS = "forms"
KEPT = "kept"
KEPT_SIZES = ((1024, 768), (4000, 3000))
JPEG_GRPC = "JPEG bytes, gRPC"
SIDE = 224
SIZES = {"360x640": (640, 360), "720x1280": (1280, 720), "1080x1920": (1920, 1080)}
CLIENTS = 20
BASIC = (("field1", "Hello"), ("field2", "World"), ("field3", 2023))
NUMBERS = tuple((str(number), number) for number in range(100))
ECHO_REST = Rival("FastAPI echo", "echo_rest.py")
ECHO_GRPC = Rival("grpc.aio echo", "echo_grpc.py", speaks_grpc=True)


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    sizes = scale.pick(("360x640",), tuple(SIZES))
    return Scenario(
        key="client",
        title="From the client",
        question="Which bytes should a caller send: structured data, an image as base64 in JSON, or the image as it "
        "is; and over REST or gRPC?",
        experiments=(
            *(_echo(size, scale) for size in sizes),
            *(_lightbox(size, scale) for size in sizes),
            _forms(scale),
            *(_kept(*size, scale) for size in scale.pick(KEPT_SIZES[:1], KEPT_SIZES)),
        ),
        notes=(
            "Twenty requests start together and the time until the last answer counts; the average over the waves is "
            "what the study's tables give. As there, the images are JPEGs of random pixels.",
            "The study's REST client is httpx, whose own cost is in its figures; here a raw socket sends the prepared "
            "request, so that the server is what is measured. The gRPC client makes and serializes each message anew.",
            "Lightbox's rows have mobilenet_v2 behind them: the image is decoded, resized and classified. The gRPC row "
            "is ModelInfer of the Open Inference Protocol, answered by the gRPC front.",
            "In the last table one client sends one 1024x768 JPEG, or the same image at the model's 224x224 as raw "
            "tensor behind JSON or in raw_input_contents, which needs no decoding: its floor is that of the JPEG.",
        ),
    )


def _echo(size: str, scale: Scale) -> Experiment:
    text = _base64(size)
    image = photos.noise(*SIZES[size])
    basic = json.dumps(dict(BASIC) | {"field4": dict(NUMBERS)}).encode()
    variants = (
        Variant("basic, REST", ECHO_REST, HttpClient(basic, "application/json", "/basic")),
        Variant("basic, gRPC", ECHO_GRPC, EchoClient("Basic", (*BASIC, ("field4", NUMBERS)))),
        Variant("base64, REST", ECHO_REST, HttpClient(_json(text), "application/json", "/base64")),
        Variant("base64, gRPC", ECHO_GRPC, EchoClient("Base64Image", (("image", text),))),
        Variant("binary, REST", ECHO_REST, HttpClient(image, "application/octet-stream", "/binary")),
        Variant("binary, gRPC", ECHO_GRPC, EchoClient("BinaryImage", (("image", image),))),
    )
    return Experiment(f"echo_{size}", f"echo servers, {size}", variants, _load(scale), scale.pick(1, 2))


def _lightbox(size: str, scale: Scale) -> Experiment:
    image = photos.noise(*SIZES[size])
    encoded = json.dumps({"instances": [{"b64": _base64(size)}]}).encode()
    headers = {common.ATTRIBUTES: common.attributes("mobilenet_v2")}
    stack = common.with_front()
    variants = (
        Variant("base64, REST", stack, HttpClient(encoded, "application/json", headers=headers)),
        Variant("binary, REST", stack, common.post_image("mobilenet_v2", body=image)),
        Variant("binary, gRPC", stack, _jpeg(image)),
    )
    title = f"Lightbox with a model behind, {size}"
    return Experiment(f"lightbox_{size}", title, variants, _load(scale), counted=scale.pick(0, 2))


def _forms(scale: Scale) -> Experiment:
    calls, rounds = scale.pick((8, 2), (30, 8))
    stack, pixels = common.with_front(), photos.pixels(SIDE)
    tensors = {
        "JPEG bytes": _jpeg(photos.photo()),
        "raw uint8": InferClient("mobilenet_v2_uint8", "UINT8", pixels.shape, pixels.tobytes(), "image"),
        "raw float32": InferClient("mobilenet_v2", "FP32", pixels.shape, pixels.astype("f4").tobytes()),
    }
    variants = [
        Variant(f"{form}, {name}", stack, client.over_rest() if name == "REST" else client)
        for form, client in tensors.items()
        for name in ("REST", "gRPC")
    ]
    return Experiment(
        key=FORMS,
        title="one image at a time by the Open Inference Protocol",
        variants=(*variants, Variant(common.FLOOR, stack, common.classification_floor())),
        load=Load(calls),
        rounds=rounds,
        floor=common.FLOOR,
        counted=scale.pick(0, 2),
    )


def _kept(width: int, height: int, scale: Scale) -> Experiment:
    image, stack = photos.photo(width, height), common.lightbox(LIGHTBOX_SESSIONS="true")
    headers = {common.ATTRIBUTES: common.attributes("mobilenet_v2")}
    part = {common.ATTRIBUTES: f"{headers[common.ATTRIBUTES]},tfs-crop=0,0,224,224"}
    calls, rounds = scale.pick((8, 2), (30, 8))
    return Experiment(
        key=f"{KEPT}_{width}x{height}",
        title=f"one {width}x{height} JPEG at a time: sent each time, or kept in a session",
        variants=(
            Variant("sent", stack, HttpClient(image, common.IMAGE, headers=headers)),
            Variant("kept in a session", stack, KeptImage(image, common.IMAGE, headers)),
            Variant("kept, a part of 224x224", stack, KeptImage(image, common.IMAGE, part)),
        ),
        load=Load(calls),
        rounds=rounds,
    )


def _jpeg(image: bytes) -> InferClient:
    return InferClient("mobilenet_v2", "BYTES", (1,), struct.pack("<I", len(image)) + image)


def _load(scale: Scale) -> Load:
    return Load(CLIENTS * scale.pick(2, 10), CLIENTS, waves=True)


@lru_cache
def _base64(size: str) -> str:
    return base64.b64encode(photos.noise(*SIZES[size])).decode()


def _json(text: str) -> bytes:
    return json.dumps({"image": text}).encode()
