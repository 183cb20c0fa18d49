"""Load: many clients at once, beside FastAPI and LitServe with ONNX Runtime and the same networks."""

from __future__ import annotations

import base64
import json

from benchmark import models, photos
from benchmark.clients.base import Client, Load
from benchmark.clients.http import HttpClient
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common, engine_stacks
from benchmark.servers.rival import Rival
from benchmark.servers.stack import Stack

WORKERS = engine_stacks.WORKERS
STUDY_CLIENTS = 50
IMAGE_BYTES = 225_000
"""300 kB as base64."""

FASTAPI = engine_stacks.RIVALS["mobilenet_v3"]
LITSERVE = Rival("LitServe + ONNX Runtime", "litserve_onnx.py", ("mobilenet_v2", WORKERS), health="/health")
LITSERVE_ONE = Rival("LitServe + ONNX Runtime, 1 worker", "litserve_onnx.py", ("mobilenet_v2", "1"), health="/health")
ONE_THREAD = "Lightbox, one thread for an operation"
FOLDED = "Lightbox, one thread, normalizations folded"
PIXELS = "Lightbox, one thread, folded, uint8 pixels"
"""The graph scales, so that a quarter of the bytes goes to the model server."""
IN_THE_GRAPH = "Lightbox, decoded in the graph"
LIGHTBOX, DIRECT = "Lightbox", "direct call, tensor prepared"


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="load",
        title="Load",
        question="How much does one machine carry, at what latency and memory, and how long until it answers?",
        experiments=(
            _study("base64", scale),
            _study("binary", scale),
            _same_network(1, scale),
            _same_network(8, scale),
            *engine_stacks.experiments(scale),
            *(_open_loop(rate, scale) for rate in scale.pick((20,), (10, 20, 30, 40, 80))),
        ),
        axes={"open": "requests started each second"},
        notes=(
            "The study runs `ab -n 40000 -c 50` against 4 workers; here 50 clients send fewer requests to 2 workers. "
            "The image is a JPEG of about 225 kB, 300 kB as base64. Lightbox decodes it in the sidecar, or hands it on "
            "to a form of the network whose graph decodes.",
            "FastAPI runs as the study has it: a session with one thread in each uvicorn worker, Pillow decodes, the "
            "graph resizes. LitServe decodes and resizes with Pillow. Both answer all 1000 probabilities, as Lightbox "
            "does. The networks are the same to the last weight, converted to ONNX and checked against Keras.",
            "ONNX Runtime folds batch normalizations into convolutions when it loads a network. TensorFlow Serving "
            "runs the graph that it is given: one row has the graph of `lightbox export mobilenet_v2_folded`, the next "
            "the same with `--input uint8`, which scales the pixels itself.",
            "Requests for Lightbox name no wire: with the embedded model server they go over `local`, with "
            "tensorflow_model_server over gRPC.",
            "The rows with an engine's name serve one model alone, with the embedded model server and two workers. "
            "Other answers are those that differ from tensorflow_model_server's: such rows are no part of a target. "
            "The first start with `auto` compares the engines, so the start of a second run is the one to quote.",
            "INT8 models are calibrated with crops of two photographs: they cost what others cost, and their accuracy "
            "means nothing. ResNet-50 and MobileNetV3Small have seeded random weights, the same for everybody.",
            "In the open loop requests start on time whatever the server does, and latency counts from that time.",
        ),
    )


def small_lightbox() -> Stack:
    """Return the stack with MobileNetV3Small and 2 workers."""
    settings = (("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v3"), ("SAGEMAKER_GUNICORN_WORKERS", WORKERS))
    return Stack("Lightbox with MobileNetV3Small", models.small_classifier(), settings)


def _study(form: str, scale: Scale) -> Experiment:
    image = photos.photo_of_bytes(IMAGE_BYTES)
    text = base64.b64encode(image).decode()
    if form == "binary":
        theirs: Client = HttpClient(image, "application/octet-stream", "/binary/")
        client = common.post_image("mobilenet_v3", body=image)
        ours = [Variant(LIGHTBOX, small_lightbox(), client)]
    else:
        theirs = HttpClient(_json({"image": text}), "application/json", "/predict/")
        ours = [
            Variant(name, small_lightbox(), _base64_image(text, model))
            for name, model in ((LIGHTBOX, "mobilenet_v3"), (IN_THE_GRAPH, "mobilenet_v3_bytes"))
        ]
        client = _base64_image(text, "mobilenet_v3")
    if scale.name == "full":
        name = engine_stacks.AUTO
        alone = engine_stacks.stack(name, engine_stacks.EQUAL_ANSWERS[name], "mobilenet_v3")
        ours.append(Variant(name, alone, client))
    return Experiment(
        f"study_{form}",
        f"MobileNetV3Small, {form}, {STUDY_CLIENTS} clients",
        (Variant(FASTAPI.name, FASTAPI, theirs), *ours),
        Load(scale.pick(60, 600), STUDY_CLIENTS, most_seconds=scale.pick(4, 8)),
        rounds=scale.pick(1, 2),
        counted=scale.pick(0, 2),
    )


def _base64_image(text: str, model: str) -> HttpClient:
    headers = {common.ATTRIBUTES: common.attributes(model)}
    return HttpClient(_json({"instances": [{"b64": text}]}), "application/json", headers=headers)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _same_network(clients: int, scale: Scale) -> Experiment:
    image = photos.photo()
    form = engine_stacks.post_form(image)
    settings = (common.DEFAULT_MODEL, ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", "1"))
    stack = Stack(ONE_THREAD, models.classifiers(), settings)
    ours = {ONE_THREAD: "mobilenet_v2", FOLDED: "mobilenet_v2_folded", PIXELS: "mobilenet_v2_folded_uint8"}
    one_thread = [Variant(name, stack, common.post_image(model)) for name, model in ours.items()]
    variants = [
        Variant(LIGHTBOX, common.lightbox(), common.post_image("mobilenet_v2")),
        Variant(LITSERVE.name, LITSERVE, form),
        *scale.pick([], [Variant(LITSERVE_ONE.name, LITSERVE_ONE, form), *one_thread, *engine_stacks.variants()]),
    ]
    if clients == 1:
        variants += [
            Variant(common.FLOOR, common.lightbox(), common.classification_floor()),
            Variant(DIRECT, common.lightbox(), common.classification_floor(prepared=True)),
        ]
    return Experiment(
        f"same_network_{clients}",
        f"mobilenet_v2, {clients} client{'s' if clients > 1 else ''}",
        tuple(variants),
        Load(scale.pick(20, 50) if clients == 1 else scale.pick(60, 200), clients, most_seconds=10),
        rounds=scale.pick(2, 5),
        floor=common.FLOOR if clients == 1 else None,
        counted=scale.pick(0, 2) if clients == 1 else 0,
    )


def _open_loop(rate: int, scale: Scale) -> Experiment:
    variant = Variant(LIGHTBOX, common.lightbox(), common.post_image("mobilenet_v2"))
    load = Load(rate * scale.pick(3, 4), rate=rate, most_seconds=20)
    return Experiment("open", f"open loop, {rate}/s", (variant,), load, scale.pick(1, 3), x=rate)
