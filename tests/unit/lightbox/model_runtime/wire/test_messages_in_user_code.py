"""TensorFlow's messages in user code, whichever package provides them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support import commands
from support.other_packages import BOTH, other_packages

CONTAINER = Path(__file__).parents[5] / "container"
SCRIPT = """
import lightbox.serving.worker
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
request = predict_pb2.PredictRequest()
request.inputs["x"].CopyFrom(tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_shape=TensorShapeProto()))
try:
    import tensorflow
except ModuleNotFoundError:
    print("no tensorflow")
else:
    request.inputs["y"].CopyFrom(tensorflow.make_tensor_proto([1.0]))
    print(tensorflow.make_ndarray(request.inputs["y"]))
print(hasattr(predict_pb2, "__file__"), hasattr(tensor_pb2, "__file__"))
"""


def printed(tmp_path: Path, *hidden: str) -> list[str]:
    """Return the lines that the script prints without these packages."""
    environ = os.environ | other_packages(tmp_path / "reports", *hidden)
    environ["PYTHONPATH"] += f"{os.pathsep}{CONTAINER}"
    command = [sys.executable, "-P", "-W", "ignore", "-c", SCRIPT]
    shown = commands.output(command, env=environ)
    return shown.splitlines()


def test_messages_in_an_image_without_tensorflow(tmp_path: Path) -> None:
    assert printed(tmp_path, "tensorflow") == ["no tensorflow", "True False"]


def test_messages_without_either_package(tmp_path: Path) -> None:
    assert printed(tmp_path, *BOTH) == ["no tensorflow", "False False"]


@pytest.mark.extended
@pytest.mark.parametrize("hidden", [(), ("tensorflow_serving",)])
def test_an_installed_tensorflow_shares_its_classes(tmp_path: Path, hidden: tuple[str, ...]) -> None:
    assert printed(tmp_path, *hidden) == ["[1.]", f"{not hidden} True"]
