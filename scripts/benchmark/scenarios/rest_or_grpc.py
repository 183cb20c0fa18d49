"""REST or gRPC to the model server: repeats the study of AWS's TensorFlow Serving container."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from benchmark import models, photos
from benchmark.clients import Load
from benchmark.clients.boto import Boto3Client
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.servers import Stack

HANDLER = Path(__file__).resolve().parents[1] / "handlers" / "sample" / "inference.py"
SAMPLE_REST, SAMPLE_GRPC = "sample's REST handler", "sample's gRPC handler"
LIGHTBOX_REST, LIGHTBOX_GRPC = "Lightbox REST", "Lightbox gRPC"
WITHOUT_BOTO3 = "Lightbox gRPC, without boto3"
KINDS = {"classification": "mobilenet_v2", "detection": "efficientdet_d1"}


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="rest_or_grpc",
        minutes=scale.pick(0.4, 4.5),
        experiments=(
            _experiment("classification", scale, Load(scale.pick(6, 10)), scale.pick(2, 10)),
            # A quick run omits detection: with the sample's handlers or over REST it takes seconds per call.
            *scale.pick((), (_experiment("detection", scale, Load(6, most_seconds=6), 5),)),
        ),
    )


def _experiment(kind: str, scale: Scale, load: Load, rounds: int) -> Experiment:
    model = KINDS[kind]
    return Experiment(
        key=kind,
        title=f"{kind.capitalize()}, {model}",
        variants=(
            Variant(SAMPLE_REST, _sample("rest", scale), _boto3(f"tfs-model-name={model}")),
            Variant(SAMPLE_GRPC, _sample("grpc", scale), _boto3(f"tfs-model-name={model}")),
            Variant(LIGHTBOX_REST, common.lightbox(), _boto3(common.attributes(model, "rest"))),
            Variant(LIGHTBOX_GRPC, common.lightbox(), _boto3(common.attributes(model, "grpc"))),
            Variant(WITHOUT_BOTO3, common.lightbox(), common.post_image(model, "grpc")),
        ),
        load=load,
        rounds=rounds,
        warm_up=1,
    )


def _boto3(custom_attributes: str) -> Boto3Client:
    return Boto3Client(photos.photo(), common.IMAGE, custom_attributes)


def _sample(wire: Literal["rest", "grpc"], scale: Scale) -> Stack:
    settings = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2",
        "PREDICT_USING_GRPC": "true" if wire == "grpc" else "false",
        # One client needs one worker, and each worker imports TensorFlow.
        **scale.pick({"SAGEMAKER_GUNICORN_WORKERS": "1"}, {}),
    }
    kinds = scale.pick(("classification",), tuple(KINDS))
    folder = models.with_handler(HANDLER, [KINDS[kind] for kind in kinds])
    return Stack(f"the sample's {wire} handler", folder, tuple(settings.items()))
