"""Batching options: the fields of a BatchingParameters message, with tensorflow_model_server's defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lightbox.model_runtime.server.grpc.protos import BatchingParameters
from lightbox.model_runtime.server.model_config import read_text_proto
from lightbox.model_runtime.wire.status import invalid

PER_MODEL_FILE = "batching_params.pbtxt"

_LARGEST_MADE = 64
"""Rows of a full batch for warming up an engine."""


@dataclass(frozen=True)
class BatchingOptions:
    """Sizes count rows (first dimension) of a request; ``allowed_batch_sizes`` may be empty for any."""

    max_batch_size: int = 1000
    timeout_seconds: float = 0.0
    max_enqueued_batches: int = 10
    num_batch_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: bool = False
    split_large: bool = False
    max_execution_batch_size: int = 1000

    def usual_sizes(self) -> tuple[int, ...]:
        """Return the sizes to warm up: the allowed ones, or one row and a full batch."""
        if self.allowed_batch_sizes:
            return self.allowed_batch_sizes
        return (1, self.max_batch_size) if 1 < self.max_batch_size <= _LARGEST_MADE else (1,)


def read_options(path: str) -> BatchingOptions:
    """Return the parameters in a file ("" for the defaults); raise StatusError for invalid ones."""
    parameters = read_text_proto(path, BatchingParameters()) if path else BatchingParameters()
    defaults = BatchingOptions()

    def value(name: str, default: int) -> int:
        return int(getattr(parameters, name).value) if parameters.HasField(name) else default

    largest = value("max_batch_size", defaults.max_batch_size)
    options = BatchingOptions(
        max_batch_size=largest,
        timeout_seconds=value("batch_timeout_micros", 0) / 1e6,
        max_enqueued_batches=value("max_enqueued_batches", defaults.max_enqueued_batches),
        num_batch_threads=value("num_batch_threads", defaults.num_batch_threads),
        allowed_batch_sizes=tuple(parameters.allowed_batch_sizes),
        pad_variable_length_inputs=parameters.pad_variable_length_inputs,
        split_large=bool(parameters.enable_large_batch_splitting.value),
        max_execution_batch_size=value("max_execution_batch_size", largest),
    )
    _check(options)
    return options


def _check(options: BatchingOptions) -> None:
    if options.num_batch_threads < 1:
        raise invalid(f"num_batch_threads must be positive; was {options.num_batch_threads}")
    if options.max_batch_size < 1:
        raise invalid(f"max_batch_size must be positive; was {options.max_batch_size}")
    if options.max_enqueued_batches < 1:
        raise invalid(f"max_enqueued_batches must be positive; was {options.max_enqueued_batches}")
    sizes = options.allowed_batch_sizes
    if any(later <= earlier for earlier, later in pairwise(sizes)):
        raise invalid("allowed_batch_sizes entries must be monotonically increasing")
    limit = options.max_execution_batch_size if options.split_large else options.max_batch_size
    if sizes and sizes[-1] != limit:
        name = "be equal to max_execution_batch_size" if options.split_large else "match max_batch_size"
        text = f"Last entry in allowed_batch_sizes must {name}; last entry was {sizes[-1]}; expected {limit}"
        raise invalid(text)


def model_options(folder: str) -> BatchingOptions | None:
    """Return the parameters in a SavedModel, None if it has none."""
    path = Path(folder) / PER_MODEL_FILE
    return read_options(str(path)) if path.is_file() else None
