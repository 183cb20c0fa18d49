"""Predict with Ultralytics' client and OpenVINO's ModelAPI against Lightbox, and compare with the same files here.

    make vision-clients

It prints the largest difference of each answer, and fails if one is more than a thousandth, or has other names. With a
FILE it writes the requests over HTTP there, which ``tests/unit`` sends again. Numbers of a body are left out.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import tritonclient.http as triton
import ultralytics
from model_api.adapters import OpenvinoAdapter, create_core
from model_api.models import Model
from openvino import opset13

from pixels.pictures import SIZES, picture

EXPORTS = Path(__file__).parent / "recipes"
SERVE = Path(__file__).parents[2] / "serve.sh"
TASKS = {
    **{"ultralytics_detect": "detect", "ultralytics_dynamic": "detect", "ultralytics_pose": "pose"},
    **{"ultralytics_segment": "segment", "ultralytics_obb": "obb", "ultralytics_classify": "classify"},
}
PARTS = ("boxes", "masks", "keypoints", "obb", "probs")
CLASSES, POINTS = "modelapi_classes", "modelapi_points"
MOST = 1e-3
JSON_LENGTH = "Inference-Header-Content-Length"

Answers = dict[str, Any]
recorded: list[dict[str, Any]] = []


def record(library: str) -> None:
    """Keep the requests that a library sends from now on."""
    client, name = triton.InferenceServerClient, f"{library} {version(library)}"
    get, post = ORIGINAL

    def kept_get(self: Any, request_uri: str, **rest: Any) -> Any:
        recorded.append({"client": name, "path": f"/{request_uri}"})
        return get(self, request_uri=request_uri, **rest)

    def kept_post(self: Any, request_uri: str, request_body: Any, headers: Any, **rest: Any) -> Any:
        asked = json.loads(request_body[: int(headers[JSON_LENGTH])])
        recorded.append({"client": name, "path": f"/{request_uri}", "headers": headers, "json": asked})
        return post(self, request_uri=request_uri, request_body=request_body, headers=headers, **rest)

    client._get, client._post = kept_get, kept_post


ORIGINAL = triton.InferenceServerClient._get, triton.InferenceServerClient._post


def pictures() -> Iterator[tuple[str, Any]]:
    """Yield pictures by name, in the order of colors that the clients take."""
    for name in SIZES:
        yield name, np.ascontiguousarray(np.asarray(picture(name))[..., ::-1])


def written(models: Path) -> None:
    """Write the models: Ultralytics' exports, and files with their preparation as ModelAPI saves them."""
    for name in TASKS:
        models.joinpath(name).mkdir(parents=True)
        models.joinpath(name, "1").symlink_to(EXPORTS / name, target_is_directory=True)
    points = models.parent / "points.xml"
    openvino.save_model(points_network(), points, compress_to_fp16=False)
    for name, file in ((CLASSES, EXPORTS / "openvino_classify" / "model.xml"), (POINTS, points)):
        models.joinpath(name, "1").mkdir(parents=True)
        Model.create_model(str(file)).save(str(models / name / "1" / "model.xml"))


def points_network() -> openvino.Model:
    """Return a network whose outputs are rows and columns of five keypoints, as SimCC gives them."""
    random = np.random.default_rng(20261129)
    image = opset13.parameter([1, 3, 64, 96], np.float32, name="image")
    image.output(0).set_names({"image"})
    seen = opset13.convolution(
        image, random.normal(0, 1, (5, 3, 8, 8)).astype(np.float32), [8, 8], [0, 0], [0, 0], [1, 1]
    )
    results = []
    for name, axis in (("simcc_x", 2), ("simcc_y", 3)):
        sums = opset13.reduce_mean(seen, np.array([axis]))
        sums.output(0).set_names({name})
        results.append(opset13.result(sums))
    network = openvino.Model(results, [image])
    said = {"model_type": "keypoint_detection", "labels": "nose left_eye right_eye left_ear right_ear"}
    for key, value in said.items():
        network.set_rt_info(value, ["model_info", key])
    return network


def of_ultralytics(model: str | Path, task: str) -> Iterator[tuple[str, Answers]]:
    """Yield what Ultralytics answers for each picture, of a file or at an address."""
    asked = ultralytics.YOLO(model, task=task)
    for name, pixels in pictures():
        (found,) = asked.predict(pixels, verbose=False)
        parts = {part: getattr(found, part) for part in PARTS}
        yield name, {"names": found.names} | {part: one.data.numpy() for part, one in parts.items() if one is not None}


def of_model_api(model: str) -> Iterator[tuple[str, Answers]]:
    """Yield what ModelAPI answers for each picture, of a file or at an address."""
    precise = {"INFERENCE_PRECISION_HINT": "f32"}  # as Lightbox computes
    is_file = Path(model).is_file()
    asked = Model.create_model(OpenvinoAdapter(create_core(), model, plugin_config=precise) if is_file else model)
    for name, pixels in pictures():
        found = asked(pixels)
        if classes := getattr(found, "top_labels", None):
            scores = np.array([one.confidence for one in sorted(classes, key=lambda one: one.id)])
            yield name, {"names": sorted((one.id, one.name) for one in classes), "scores": scores}
        else:
            yield name, {"names": asked.params.labels, "keypoints": found.keypoints, "scores": found.scores}


def apart(here: Answers, there: Answers) -> float:
    """Return the largest difference of two answers, infinity for other names or numbers of objects."""
    if here.keys() != there.keys() or here["names"] != there["names"]:
        return np.inf
    pairs = [(here[key], there[key]) for key in here if key != "names"]
    if any(one.shape != other.shape for one, other in pairs):
        return np.inf
    return max(float(np.abs(one - other).max(initial=0)) for one, other in pairs)


@contextmanager
def serving(models: Path) -> Iterator[tuple[str, str]]:
    """Serve the models; yield the addresses of HTTP and of gRPC."""
    with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as other:
        http, grpc = (server.getsockname()[1] for server in (one, other))
    settings = {"LIGHTBOX_MODEL_DIR": models, "LIGHTBOX_LINKED_FOLDERS": EXPORTS, "TMPDIR": models.parent}
    settings |= {"SAGEMAKER_BIND_TO_PORT": http, "LIGHTBOX_KSERVE_GRPC_PORT": grpc}
    environ = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    server = subprocess.Popen([SERVE, "serve"], env=environ, stdout=subprocess.DEVNULL)
    try:
        while server.poll() is None and not is_ready(http):
            time.sleep(0.2)
        yield f"localhost:{http}", f"localhost:{grpc}"
    finally:
        server.terminate()
        server.wait()


def is_ready(port: int) -> bool:
    """Return whether a server at a port answers predictions."""
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/ping") as found:
            return found.status == 200
    except OSError:
        return False


def compared(http: str, grpc: str, models: Path) -> Iterator[float]:
    """Yield the largest difference of each client and model."""
    record("ultralytics")
    for model, task in TASKS.items():
        for address in (f"http://{http}/{model}", f"grpc://{grpc}/{model}"):
            file = models / model / "1" / "model.onnx"
            yield said(address, of_ultralytics(file, task), of_ultralytics(address, task))
    record("openvino-model-api")
    for model in (CLASSES, POINTS):
        address = f"{http}/v2/models/{model}"
        yield said(address, of_model_api(str(models / model / "1" / "model.xml")), of_model_api(address))


def said(address: str, here: Iterator[tuple[str, Answers]], there: Iterator[tuple[str, Answers]]) -> float:
    """Return the largest difference of the answers at an address, and print it."""
    most = max(apart(one, other) for (_, one), (_, other) in zip(here, there, strict=True))
    print(f"{address}: {len(SIZES)} pictures, at most {most:.2g} apart")
    return most


def main(*arguments: str) -> int:
    """Compare; return 1 for a difference."""
    os.environ |= {"YOLO_OFFLINE": "1", "YOLO_AUTOINSTALL": "false"}
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder, "models")
        written(models)
        with serving(models) as (http, grpc):
            is_equal = max(compared(http, grpc, models)) <= MOST
    if arguments:
        once = {one["path"]: one for one in reversed(recorded)}
        Path(arguments[0]).write_text(json.dumps([*reversed(once.values())], indent=1) + "\n")
    return not is_equal


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
