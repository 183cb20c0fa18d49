"""The TensorFlow runtime through its C API (``tensorflow/c/c_api.h``), without the Python package.

``libtensorflow_cc.so.2`` of the tensorflow wheel is the C++ runtime of tensorflow_model_server: the same loader,
session and error texts. It loads in 0.3 s and 320 MB; ``import tensorflow`` takes seconds and twice the memory
(docs/adr/020-tensorflow-c-api.md).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from lightbox.model_runtime.wire.status import Code, StatusError

LIBRARY = "libtensorflow_cc.so.2"


class Output(ctypes.Structure):
    """``TF_Output``: one output of an operation."""

    _fields_ = [("operation", c_void_p), ("index", c_int)]


class Buffer(ctypes.Structure):
    """``TF_Buffer``: bytes that TensorFlow or we own."""

    _fields_ = [("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p)]


# Name, result, arguments: the part of the C API that is used here.
_FUNCTIONS: list[tuple[str, Any, list[Any]]] = [
    ("TF_Version", c_char_p, []),
    ("TF_NewStatus", c_void_p, []),
    ("TF_DeleteStatus", None, [c_void_p]),
    ("TF_GetCode", c_int, [c_void_p]),
    ("TF_Message", c_char_p, [c_void_p]),
    ("TF_NewBuffer", c_void_p, []),
    ("TF_NewBufferFromString", c_void_p, [c_char_p, c_size_t]),
    ("TF_DeleteBuffer", None, [c_void_p]),
    ("TF_NewSessionOptions", c_void_p, []),
    ("TF_SetConfig", None, [c_void_p, c_char_p, c_size_t, c_void_p]),
    ("TF_DeleteSessionOptions", None, [c_void_p]),
    ("TF_NewGraph", c_void_p, []),
    ("TF_DeleteGraph", None, [c_void_p]),
    ("TF_GraphOperationByName", c_void_p, [c_void_p, c_char_p]),
    ("TF_OperationNumOutputs", c_int, [c_void_p]),
    (
        "TF_LoadSessionFromSavedModel",
        c_void_p,
        [c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, c_void_p, c_void_p],
    ),
    ("TF_CloseSession", None, [c_void_p, c_void_p]),
    ("TF_DeleteSession", None, [c_void_p, c_void_p]),
    (
        "TF_SessionRun",
        None,
        [
            *[c_void_p, c_void_p, POINTER(Output), POINTER(c_void_p), c_int],
            *[POINTER(Output), POINTER(c_void_p), c_int, c_void_p, c_int, c_void_p, c_void_p],
        ],
    ),
    ("TF_AllocateTensor", c_void_p, [c_int, POINTER(c_int64), c_int, c_size_t]),
    ("TF_DeleteTensor", None, [c_void_p]),
    ("TF_TensorType", c_int, [c_void_p]),
    ("TF_NumDims", c_int, [c_void_p]),
    ("TF_Dim", c_int64, [c_void_p, c_int]),
    ("TF_TensorByteSize", c_size_t, [c_void_p]),
    ("TF_TensorData", c_void_p, [c_void_p]),
    ("TF_StringInit", None, [c_void_p]),
    ("TF_StringCopy", None, [c_void_p, c_char_p, c_size_t]),
    ("TF_StringGetDataPointer", c_void_p, [c_void_p]),
    ("TF_StringGetSize", c_size_t, [c_void_p]),
]


def _library_path() -> Path:
    """Return the path of the runtime; raise ImportError if tensorflow is not installed."""
    spec = importlib.util.find_spec("tensorflow")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / LIBRARY
        if path.exists():
            return path
    raise ImportError(f"{LIBRARY} was not found: install tensorflow-cpu, as lightbox-serve[tensorflow] does")


class _Library:
    """Opens the shared library on first use, so that ``--help`` and flag errors stay fast."""

    def __init__(self) -> None:
        self._handle: ctypes.CDLL | None = None

    def _open(self) -> ctypes.CDLL:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        handle = ctypes.CDLL(str(_library_path()))
        for name, result, arguments in _FUNCTIONS:
            function = getattr(handle, name)
            function.restype, function.argtypes = result, arguments
        return handle

    def __getattr__(self, name: str) -> Any:
        if self._handle is None:
            self._handle = self._open()
        function = getattr(self._handle, name)
        setattr(self, name, function)
        return function


tf = _Library()
"""The C functions, as ``tf.TF_SessionRun(...)``; calls release the interpreter lock."""


class Status:
    """A ``TF_Status`` that raises its error at the end of its block."""

    def __init__(self) -> None:
        self.pointer: int = tf.TF_NewStatus()

    def __enter__(self) -> Status:
        return self

    def __exit__(self, *exc_info: object) -> None:
        code = tf.TF_GetCode(self.pointer)
        message = tf.TF_Message(self.pointer).decode("utf-8", "surrogateescape") if code else ""
        tf.TF_DeleteStatus(self.pointer)
        if code:
            raise StatusError(Code(code), message)


def version() -> str:
    """Return the release of the runtime, such as "2.20.0"."""
    return str(tf.TF_Version().decode())
