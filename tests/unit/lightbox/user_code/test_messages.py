"""TensorFlow's messages in a handler, with and without the tensorflow package."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

CONTAINER = Path(__file__).parents[4] / "container"
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))


@pytest.mark.extended
def test_messages_in_an_image_without_tensorflow(tmp_path: Path) -> None:
    packages, messages = tmp_path / "packages", tmp_path / "messages"
    packages.mkdir()
    for entry in SITE_PACKAGES.iterdir():
        if entry.name != "tensorflow" and entry.suffix not in (".pth", ".dist-info"):
            (packages / entry.name).symlink_to(entry)
    bare = messages / "tensorflow"
    for folder in ("core", "compiler"):
        for file in (SITE_PACKAGES / "tensorflow" / folder).rglob("*_pb2.py"):
            link = bare / file.relative_to(SITE_PACKAGES / "tensorflow")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    script = """
import lightbox.worker
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
request = predict_pb2.PredictRequest()
request.inputs["x"].CopyFrom(tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT))
try:
    import tensorflow
except ModuleNotFoundError:
    print("no tensorflow")
"""
    environ = {"PYTHONPATH": f"{CONTAINER}:{packages}", "LIGHTBOX_TENSORFLOW_MESSAGES": str(messages)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], env=os.environ | environ, capture_output=True, text=True, check=False
    )
    assert done.stdout == "no tensorflow\n", done.stderr
