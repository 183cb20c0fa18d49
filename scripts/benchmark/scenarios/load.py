"""Load: many concurrent clients, against FastAPI, LitServe and BentoML with ONNX Runtime and the same networks."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

from benchmark import photos
from benchmark.clients import Load
from benchmark.clients.http import HttpClient
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE, MODELS
from benchmark.servers import LeastStack

STUDY_CLIENTS = 50
IMAGE_BYTES = 225_000
"""300 kB as base64."""
LITSERVE_ONE = f"{LITSERVE}, 1 worker"
LIGHTBOX = "Lightbox"
LEAST_STACK = "the least stack"
"""nginx, gunicorn and a model server with the bound's work and nothing else."""
EQUAL_RESIZE = "Lightbox, engine auto, the graph's resize"
ENGINES_OF = ("resnet50", "efficientdet_d1")
"""Models that are measured with each engine beside mobilenet_v2; the study's tables have MobileNetV3Small."""


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="load",
        minutes=scale.pick(0.8, 6),
        experiments=(
            _study("base64", scale),
            _study("binary", scale),
            _same_network(1, scale),
            _same_network(8, scale),
            *(_engines(model) for model in scale.pick((), ENGINES_OF)),
            *(_open_loop(rate, scale) for rate in scale.pick((20,), (20, 80))),
        ),
        axes={"open": "requests started each second"},
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
    auto = Variant(AUTO, common.stack(AUTO, common.EQUAL_ANSWERS[AUTO]), common.post_image(common.MODEL))
    variants = [
        Variant(LIGHTBOX, common.lightbox(), common.post_image("mobilenet_v2")),
        common.rival(LITSERVE, "mobilenet_v2"),
    ]
    if scale.name == "quick":
        variants.append(auto)
    else:
        variants += [
            common.rival(LITSERVE, "mobilenet_v2", workers="1"),
            common.rival(FASTAPI, "mobilenet_v2"),
            common.rival(BENTOML, "mobilenet_v2"),
            *common.variants(),
            Variant(LEAST_STACK, LeastStack(LEAST_STACK), common.post_image("mobilenet_v2")),
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
    rivals = (LITSERVE, FASTAPI, BENTOML) if model == "resnet50" else ()
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
