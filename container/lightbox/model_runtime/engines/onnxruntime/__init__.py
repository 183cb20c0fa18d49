"""ONNX Runtime: ONNX files on the CPU."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from lightbox.model_runtime.access import open_file, read_file
from lightbox.model_runtime.engines.base import Array, failure, rows_apart
from lightbox.model_runtime.engines.engine import Engine, Opened, OpenOptions
from lightbox.model_runtime.engines.hardware import LEVELS, PRECISIONS, has_bf16
from lightbox.model_runtime.engines.onnxruntime.divisions import guard_divisions
from lightbox.model_runtime.engines.samples import batches
from lightbox.model_runtime.formats import ONNX, ModelFile, model_file
from lightbox.model_runtime.formats.signature import SIGNATURE, signature_def
from lightbox.model_runtime.wire.status import Code, StatusError, invalid, unreadable

_MOST_BYTES = (2 << 30) - 1
"""Protobuf's limit of a message."""
_DIVISION = b"\x22\x03Div"
"""A node's type in an ONNX file."""
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
"""The entry with the folder of weights outside of a model that is given as bytes."""
_FAST_MATHS = "mlas.enable_gemm_fastmath_arm64_bfloat16"
"""The entry for matrix products in bf16 on arm64."""
_REFUSALS = {"InvalidArgument", "Fail", "RuntimeException"}
"""The runtime's errors of nodes that do not take their inputs."""


class OnnxRuntime(Engine):
    """Runs ONNX files; the results are its own."""

    name = package = "onnxruntime"
    follows_files = True
    levels = LEVELS
    precisions = PRECISIONS[:2] if platform.machine() == "aarch64" and has_bf16() else PRECISIONS[:1]

    def opens(self, folder: Path) -> bool:
        """Return whether it is an ONNX file."""
        file = model_file(folder)
        return file is not None and file.format == ONNX

    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load the file; raise StatusError if it is damaged, or has operations outside of ONNX."""
        self.check_installed()
        file = model_file(Path(folder))
        if file is None:
            raise invalid(f"{folder} holds no ONNX file, or several")
        session = Session(file, options)
        for count in options.batches:
            with suppress(StatusError):  # made-up inputs do not fit every model
                session.run(batches(session.signatures[SIGNATURE], count)[0], session.outputs)
        return Opened(session, {})


class Session:
    """A loaded file. Any number of threads may call ``run``; a call runs to its end, even after its deadline."""

    def __init__(self, file: ModelFile, options: OpenOptions) -> None:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = max(1, options.hardware.threads // options.hardware.streams)
        settings.add_session_config_entry(
            "session.intra_op.allow_spinning", "0"
        )  # spinning would take the processors of others
        settings.log_severity_level = 3
        levels = onnxruntime.GraphOptimizationLevel
        known = (levels.ORT_ENABLE_ALL, levels.ORT_ENABLE_EXTENDED, levels.ORT_ENABLE_BASIC)
        settings.graph_optimization_level = dict(zip(LEVELS, known, strict=True))[options.hardware.level]
        if options.hardware.precision in OnnxRuntime.precisions[1:]:
            settings.add_session_config_entry(_FAST_MATHS, "1")
        try:
            signature = file.signature()
            self.signatures = {SIGNATURE: signature_def(signature)}
            with file.together() as path:
                changed = guard_divisions(read_file(path, _MOST_BYTES)) if _divides(path) else None
                if changed is not None:
                    settings.add_session_config_entry(_WEIGHTS_FOLDER, str(path.parent))
                self._session = onnxruntime.InferenceSession(
                    changed or str(path), settings, providers=["CPUExecutionProvider"]
                )
        except OSError as error:
            raise unreadable(str(file.path), error) from None
        except Exception as error:  # the runtime's errors share no class
            raise unreadable(str(file.path), _line(error)) from None
        inputs = [info.tensor_shape for info in self.signatures[SIGNATURE].inputs.values()]
        self._has_open_sizes = any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim[1:]) for shape in inputs)
        self.outputs = [info.name for info in self.signatures[SIGNATURE].outputs.values()]
        self._classes = {name: tensor.classes for name, tensor in signature.outputs.items() if tensor.classes}

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Return the values of ``fetches``; see ``Runner.run``."""
        if apart := rows_apart(self.signatures[SIGNATURE], feeds):
            raise invalid(apart)
        rows = {name: len(array) for name, array in feeds.items() if array.ndim}
        empty = [name for name, count in rows.items() if not count]
        if empty and len(empty) < len(rows):  # some operations then read beyond the values of the others
            raise invalid(f"{empty[0]} is empty")
        try:
            given = {name: _strings(array, bytes.decode) for name, array in feeds.items()}
            results = zip(fetches, self._session.run(list(fetches), given), strict=True)
            return [
                _columns(found, self._classes[name]) if name in self._classes else _strings(found, str.encode)
                for name, found in results
            ]
        except UnicodeDecodeError:
            raise invalid("expected text in UTF-8, as ONNX Runtime takes no other bytes") from None
        except Exception as error:
            if isinstance(error, ValueError) or type(error).__name__ in _REFUSALS:
                is_run = "while running" in str(error)
                raise failure("ONNX Runtime", error, feeds, has_open_sizes=is_run and self._has_open_sizes) from None
            raise StatusError(Code.INTERNAL, f"ONNX Runtime: {_line(error)}") from None

    def close(self) -> None:
        """Free the file; no call may be in progress."""
        del self._session


def _divides(path: Path) -> bool:
    """Return whether a file has a division; the bytes of one in its weights do no harm."""
    with open_file(path) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return content.find(_DIVISION) >= 0


def _strings(array: Array, change: Callable[[Any], Any]) -> Array:
    """Convert the strings of an array: the runtime has text, the server bytes."""
    return np.vectorize(change, otypes=[object])(array) if array.dtype == object and array.size else array


def _columns(rows: Sequence[Mapping[int | str, float]], classes: Sequence[int | str]) -> Array:
    """Return the scores of each row, in the order of the classes."""
    return np.array([[row[one] for one in classes] for row in rows], np.float32).reshape(-1, len(classes))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


ENGINE = OnnxRuntime()
