"""REST or gRPC inside: the study of AWS's TensorFlow Serving container, with the same image and outputs for all."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from benchmark import models, photos
from benchmark.clients.base import Client, Load
from benchmark.clients.boto import Boto3Client
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common
from benchmark.servers.base import Server
from benchmark.servers.stack import Stack

HANDLER = Path(__file__).resolve().parents[1] / "handlers" / "sample" / "inference.py"
SAMPLE_REST, SAMPLE_GRPC = "sample's REST handler", "sample's gRPC handler"
LIGHTBOX_REST, LIGHTBOX_GRPC = "Lightbox REST", "Lightbox gRPC"
MOST_SECONDS, PATIENCE = 4.0, 22.0
"""Ten detections over REST take 20 s and more: where they take longer, a round of them is cut short."""
WITHOUT_BOTO3 = "Lightbox gRPC, without boto3"
SAMPLES = ("the sample's rest handler", "the sample's grpc handler")
"""The stacks in which they run."""
KINDS = {"classification": "mobilenet_v2", "detection": "efficientdet_d1"}


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="rest_or_grpc",
        title="REST or gRPC inside",
        question="The container's front speaks REST either way. What does the wire between the sidecar and the "
        "model server change, and what does the code around it?",
        experiments=(
            _experiment("classification", scale, scale.pick((6, 2, 0), (10, 10, 4)), common.classification_floor()),
            _experiment("detection", scale, scale.pick((1, 1, 0), (10, 10, 1)), common.detection_floor()),
        ),
        notes=(
            *scale.pick(
                ("A quick run leaves out detection over REST and by the sample's handlers: it takes seconds a call.",),
                (
                    f"100 calls of each variant in ten rounds. Where a machine needs more than {PATIENCE:g} s for ten "
                    f"calls of a variant, its rounds end after {MOST_SECONDS:g} s and it has fewer.",
                ),
            ),
            "Every variant gets the same 1024x768 JPEG through boto3's `invoke_endpoint` and returns the same outputs: "
            "1000 probabilities, or boxes, classes, scores and count. boto3 itself signs each request; the row without "
            "it posts the same image to `/invocations` over a plain connection.",
            "The sample's handlers are written anew in the sample's manner and run as `inference.py` in Lightbox's own "
            "stack, its wire chosen by `PREDICT_USING_GRPC`: `json.dumps(tensor.tolist())` with `requests.post`, or "
            "`make_tensor_proto` over a channel made for each call. The stack helps them: it freezes what start-up "
            "left to the garbage collector, without which `tolist` and `dumps` take longer in a process that has "
            "imported TensorFlow.",
            "REST has no output filter: the model server writes all eight outputs of the detector as JSON, 40 MB of "
            "numbers, for the caller who wants four of them.",
        ),
    )


def _experiment(kind: str, scale: Scale, how_many: tuple[int, int, int], floor: Client) -> Experiment:
    calls, rounds, counted = how_many
    model = KINDS[kind]
    slow_to_detect = (
        Variant(SAMPLE_REST, _sample("rest", scale), _boto3(f"tfs-model-name={model}")),
        Variant(SAMPLE_GRPC, _sample("grpc", scale), _boto3(f"tfs-model-name={model}")),
        Variant(LIGHTBOX_REST, common.lightbox(), _boto3(common.attributes(model, "rest"))),
    )
    return Experiment(
        key=kind,
        title=kind,
        variants=(
            *(slow_to_detect if kind == "classification" else scale.pick((), slow_to_detect)),
            Variant(LIGHTBOX_GRPC, common.lightbox(), _boto3(common.attributes(model, "grpc"))),
            Variant(WITHOUT_BOTO3, common.lightbox(), common.post_image(model, "grpc")),
            Variant(common.FLOOR, common.lightbox(), floor),
        ),
        load=Load(calls, most_seconds=MOST_SECONDS, patience=PATIENCE),
        rounds=rounds,
        floor=common.FLOOR,
        warm_up=1,
        counted=counted,
    )


def _boto3(custom_attributes: str) -> Boto3Client:
    return Boto3Client(photos.photo(), common.IMAGE, custom_attributes)


def _sample(wire: Literal["rest", "grpc"], scale: Scale) -> Server:
    settings = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2",
        "PREDICT_USING_GRPC": "true" if wire == "grpc" else "false",
        # One client needs one worker, and each of them imports TensorFlow.
        **scale.pick({"SAGEMAKER_GUNICORN_WORKERS": "1"}, {}),
    }
    kinds = scale.pick(("classification",), tuple(KINDS))
    folder = models.with_handler(HANDLER, [KINDS[kind] for kind in kinds])
    return Stack(SAMPLES[wire == "grpc"], folder, tuple(settings.items()))
