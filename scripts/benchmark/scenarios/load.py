"""Load: many clients at once, beside FastAPI, LitServe and BentoML with ONNX Runtime and the same networks."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

from benchmark import models, photos
from benchmark.clients import Load
from benchmark.clients.http import HttpClient
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE, MODELS
from benchmark.servers import Stack

STUDY_CLIENTS = 50
IMAGE_BYTES = 225_000
"""300 kB as base64."""
LITSERVE_ONE = f"{LITSERVE}, 1 worker"
LIGHTBOX = "Lightbox"
ONE_THREAD = "Lightbox, one thread for an operation"
FOLDED = "Lightbox, one thread, normalizations folded"
PIXELS = "Lightbox, one thread, folded, uint8 pixels"
"""The graph scales, so that a quarter of the bytes goes to the model server."""
EQUAL_RESIZE = "Lightbox, engine auto, the graph's resize"


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="load",
        title="Load",
        question="How much does one machine carry, at what latency and memory, beside other servers?",
        minutes=scale.pick(0.8, 9),
        experiments=(
            _study("base64", scale),
            _study("binary", scale),
            _same_network(1, scale),
            _same_network(8, scale),
            *(_engines(model) for model in scale.pick((), tuple(MODELS))),
            *(_open_loop(rate, scale) for rate in scale.pick((20,), (10, 20, 40, 80))),
        ),
        axes={"open": "requests started each second"},
        notes=(
            "The bound decodes, resizes and runs mobilenet_v2 in one thread of each core, by Lightbox's own decoder, "
            "resize and OpenVINO, with no server around them (`scripts/benchmark/bound.py`).",
            "The first two tables repeat a [study](https://github.com/martynas-subonis/model-serving): 50 clients, "
            "a JPEG of 225 kB, MobileNetV3Small; here with two workers. Its FastAPI server resizes in the graph, "
            "without a filter: one of our rows does the same, the others have Pillow's bicubic filter.",
            "The networks are the same to the last weight, converted to ONNX and checked against Keras. All servers "
            "answer all 1000 probabilities. LitServe gets a form and BentoML the bytes, with sessions whose threads "
            "share the cores; FastAPI has one thread in each worker, as in the study.",
            "Rows without an engine's name have TensorFlow, the default of `serve.sh serve`; `make serve` has `auto`. "
            "The folded rows have the graph of `lightbox export mobilenet_v2_folded`, with `--input uint8`.",
            "INT8 models are calibrated with crops of two photographs: their cost is what others get, not their "
            "accuracy. ResNet-50 and MobileNetV3Small have random weights, the same for everybody.",
        ),
    )


def _study(form: str, scale: Scale) -> Experiment:
    image = photos.photo_of_bytes(IMAGE_BYTES)
    text = base64.b64encode(image).decode()
    fastapi = common.rival(FASTAPI, "mobilenet_v3_resize", image)
    others = [common.rival(name, "mobilenet_v3", image) for name in (LITSERVE, BENTOML)]
    client = common.post_image("mobilenet_v3", body=image)
    if form == "base64":
        fastapi = replace(fastapi, client=HttpClient(_json({"image": text}), "application/json", "/predict/"))
        others = []
        body = _json({"instances": [{"b64": text}]})
        client = HttpClient(body, "application/json", headers=client.headers)
    auto = common.EQUAL_ANSWERS[AUTO]
    same_resize = auto | {"LIGHTBOX_OPTIONS": '{"resize": "tf_bilinear"}'}
    ours = {AUTO: auto, EQUAL_RESIZE: same_resize, "Lightbox": {"LIGHTBOX_ENGINE": "tensorflow"}}
    return Experiment(
        f"study_{form}",
        f"MobileNetV3Small, {form}, {STUDY_CLIENTS} clients",
        (
            fastapi,
            *scale.pick((), tuple(others)),
            *(
                Variant(name, common.stack(name, settings, "mobilenet_v3"), client)
                for name, settings in scale.pick({AUTO: auto}, ours).items()
            ),
        ),
        Load(scale.pick(60, 600), STUDY_CLIENTS, most_seconds=scale.pick(4, 8)),
        rounds=scale.pick(1, 3),
    )


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _same_network(clients: int, scale: Scale) -> Experiment:
    settings = (common.DEFAULT_MODEL, ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", "1"))
    auto = Variant(AUTO, common.stack(AUTO, common.EQUAL_ANSWERS[AUTO]), common.post_image(common.MODEL))
    variants = [
        Variant(LIGHTBOX, common.lightbox(), common.post_image("mobilenet_v2")),
        common.rival(LITSERVE, "mobilenet_v2"),
    ]
    if scale.name == "quick":
        variants.append(auto)
    else:
        stack = Stack(ONE_THREAD, models.classifiers(), settings)
        ours = {ONE_THREAD: "mobilenet_v2", FOLDED: "mobilenet_v2_folded", PIXELS: "mobilenet_v2_folded_uint8"}
        variants += [
            common.rival(LITSERVE, "mobilenet_v2", workers="1"),
            common.rival(FASTAPI, "mobilenet_v2"),
            common.rival(BENTOML, "mobilenet_v2"),
            *(Variant(name, stack, common.post_image(model)) for name, model in ours.items()),
            *common.variants(),
        ]
    return Experiment(
        f"same_network_{clients}",
        f"mobilenet_v2, {clients} client{'s' if clients > 1 else ''}",
        tuple(variants),
        Load(scale.pick(20, 40) if clients == 1 else scale.pick(60, 150), clients, most_seconds=10),
        rounds=scale.pick(1, 4),
        bound=photos.photo(),
    )


def _engines(model: str) -> Experiment:
    rivals = {"mobilenet_v3": (), "resnet50": (LITSERVE, FASTAPI, BENTOML), "efficientdet_d1": ()}[model]
    clients = 2 if model == "efficientdet_d1" else 8
    return Experiment(
        f"engines_{model}",
        f"{MODELS[model]} with each engine, {clients} clients",
        (*common.variants(model), *(common.rival(name, model) for name in rivals)),
        Load(100 if clients == 8 else 16, clients, most_seconds=8),
        rounds=2,
    )


def _open_loop(rate: int, scale: Scale) -> Experiment:
    stack = common.stack(AUTO, common.EQUAL_ANSWERS[AUTO])
    variant = Variant(AUTO, stack, common.post_image(common.MODEL))
    return Experiment("open", f"open loop, {rate}/s", (variant,), Load(rate * scale.pick(3, 4), rate=rate), 2, x=rate)
