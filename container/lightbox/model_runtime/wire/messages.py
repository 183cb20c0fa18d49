"""TensorFlow Serving's official messages, with or without the packages that contain them.

Two packages contain them: tensorflow-serving-api has ``tensorflow_serving.apis``, whose modules import tensors from
``tensorflow.core``. Each module comes from the installed package if there is one, so that all code of the process
shares its classes; else it is made from ``messages.binpb``, which ``make protos`` writes.

A plain import of ``tensorflow.core`` runs all of ``tensorflow/__init__.py``: seconds and hundreds of megabytes for a
few message classes. So an empty package named ``tensorflow``, with the ``__path__`` of the installed one, is in place
while the messages are imported. It is removed afterwards, so that a later ``import tensorflow`` is the real one and
shares these message classes.

Import this module at start, before other threads import TensorFlow.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from lightbox.model_runtime.wire.described_modules import DescribedModules


@contextmanager
def placeholder_tensorflow() -> Iterator[None]:
    """Make ``import tensorflow.core...`` work without running ``tensorflow/__init__.py``, which may be missing."""
    if "tensorflow" in sys.modules:
        yield
        return
    spec = importlib.util.find_spec("tensorflow")
    placeholder = ModuleType("tensorflow")
    placeholder.__path__ = list(spec.submodule_search_locations or ()) if spec else []
    sys.modules["tensorflow"] = placeholder
    try:
        yield
    finally:
        del sys.modules["tensorflow"]


sys.meta_path.append(DescribedModules())  # the last one: installed packages are found first

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
