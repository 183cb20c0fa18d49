"""TensorFlow Serving's official messages, without importing TensorFlow.

``tensorflow_serving.apis`` imports its tensor messages as ``tensorflow.core...``, and importing
them the plain way runs all of ``tensorflow/__init__.py``: seconds and hundreds of megabytes for
a handful of message classes. Here an empty package named ``tensorflow``, whose ``__path__`` is
that of the installed one, stands in while the messages are imported. It is taken away again
afterwards, so that a later ``import tensorflow`` is the real one and shares these message classes.

Import this module at start, before other threads import TensorFlow.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

MESSAGES_DIR_VARIABLE = "LIGHTBOX_TENSORFLOW_MESSAGES"
"""Names a folder that holds ``tensorflow/core/**_pb2.py`` where the tensorflow wheel is not installed."""


def _search_path() -> list[str]:
    """Return the folders that hold ``core/framework/tensor_pb2.py``; raise ImportError if there is none."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is not None and spec.submodule_search_locations:
        return list(spec.submodule_search_locations)
    bare = os.environ.get(MESSAGES_DIR_VARIABLE)
    if bare and (Path(bare) / "tensorflow" / "core").is_dir():
        return [str(Path(bare) / "tensorflow")]
    raise ImportError(
        "TensorFlow's message modules were not found: install tensorflow-cpu, or point "
        f"{MESSAGES_DIR_VARIABLE} at a folder that holds tensorflow/core/**/*_pb2.py"
    )


@contextmanager
def placeholder_tensorflow() -> Iterator[None]:
    """Let ``import tensorflow.core...`` work without running ``tensorflow/__init__.py``."""
    if "tensorflow" in sys.modules:
        yield
        return
    placeholder = ModuleType("tensorflow")
    placeholder.__path__ = _search_path()
    sys.modules["tensorflow"] = placeholder
    try:
        yield
    finally:
        del sys.modules["tensorflow"]


with placeholder_tensorflow():
    from tensorflow.core.example import example_pb2
    from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
    from tensorflow.core.protobuf import config_pb2, error_codes_pb2, meta_graph_pb2
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        inference_pb2,
        input_pb2,
        model_management_pb2,
        model_pb2,
        predict_pb2,
        prediction_log_pb2,
        regression_pb2,
    )
    from tensorflow_serving.config import model_server_config_pb2, platform_config_pb2

__all__ = [
    "classification_pb2",
    "config_pb2",
    "error_codes_pb2",
    "example_pb2",
    "get_model_metadata_pb2",
    "get_model_status_pb2",
    "inference_pb2",
    "input_pb2",
    "meta_graph_pb2",
    "model_management_pb2",
    "model_pb2",
    "model_server_config_pb2",
    "platform_config_pb2",
    "predict_pb2",
    "prediction_log_pb2",
    "regression_pb2",
    "tensor_pb2",
    "tensor_shape_pb2",
    "types_pb2",
]
