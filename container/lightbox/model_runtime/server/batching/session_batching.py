"""A session that batches concurrent calls along the first dimension, runs them as one and splits the results."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.server.batching.batch_scheduler import BatchQueue, BatchScheduler, Task
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions
from lightbox.model_runtime.server.predict import run_options
from lightbox.model_runtime.wire.messages import config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

log = logging.getLogger(__name__)

_Key = tuple[frozenset[tuple[str, str]], frozenset[str]]
_LARGEST_PADDED_RANK = 6
_LATE = (Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.CANCELLED)
"""Errors of a batch that are no reason to try its calls one by one."""


def _seconds(options: bytes) -> float:
    limit = config_pb2.RunOptions.FromString(options).timeout_in_ms
    return limit / 1000 if limit else math.inf


class BatchingSession:
    """Has the interface of the session that it wraps.

    Calls that feed and fetch all tensors of one signature are batched; others (an output filter) run alone. The calls
    of a failed batch run one by one; if that shows that the model takes no batches, all later calls do.
    """

    def __init__(
        self,
        session: Runner,
        options: BatchingOptions,
        scheduler: BatchScheduler,
        queued: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.signatures = session.signatures
        self._session = session
        self._queued = queued
        self._options = options
        self._scheduler = scheduler
        self._queues: dict[_Key, BatchQueue] = {}
        self._lock = threading.Lock()
        self._is_alone = False
        """Whether a batch has failed whose calls alone did not."""
        self._batchable = {
            (
                frozenset(info.name for info in item.inputs.values()),
                frozenset(info.name for info in item.outputs.values()),
            )
            for item in session.signatures.values()
        }

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Run the graph, batched with other calls; see ``Runner.run``."""
        if self._is_alone or (frozenset(feeds), frozenset(fetches)) not in self._batchable:
            return self._session.run(feeds, fetches, options)
        rows = _rows(feeds)
        queue = self._queue(feeds, fetches)
        deadline = time.monotonic() + _seconds(options)
        tasks = self._scheduler.submit(queue, lambda: self._pieces(queue, dict(feeds), rows, deadline))
        for task in tasks:  # an ended call may reuse its memory, and close its session
            task.done.wait()
        for task in tasks:
            if task.error is not None:
                raise task.error
        if len(tasks) == 1:
            return [tasks[0].outputs[name] for name in fetches]
        return [np.concatenate([task.outputs[name] for task in tasks]) for name in fetches]

    def _queue(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> BatchQueue:
        # The types are part of the key: a call with a wrong one must not fail the others of its batch.
        key = (frozenset((name, str(array.dtype)) for name, array in feeds.items()), frozenset(fetches))
        with self._lock:
            if key not in self._queues:
                names = list(dict.fromkeys(fetches))
                queue = BatchQueue(self._options, lambda tasks: self._process(tasks, names))
                self._queues[key] = queue
                self._scheduler.add_queue(queue)
            return self._queues[key]

    def _pieces(self, queue: BatchQueue, inputs: dict[str, Array], rows: int, deadline: float) -> list[Task]:
        """Return the call as one task, or in pieces that fill the open batch and further ones."""
        if rows > self._options.max_batch_size or not self._options.split_large:
            return [Task(inputs, rows, deadline)]
        if rows <= queue.space():
            return [Task(inputs, rows, deadline)]
        most = self._options.max_execution_batch_size
        ends = [*range(queue.space() or most, rows, most), rows]
        pieces, start = [], 0
        for end in ends:
            part = {name: array[start:end] for name, array in inputs.items()}
            pieces.append(Task(part, end - start, deadline))
            start = end
        return pieces

    def _process(self, tasks: list[Task], fetches: list[str]) -> None:
        error = _error_of(lambda: self._run_batch(tasks, fetches))
        # A batch fails where its calls alone need not: one has other shapes, the graph takes one row, or an output has
        # no row for each. The last is a FAILED_PRECONDITION also of one call.
        again = (
            error is not None and error.code not in _LATE and (len(tasks) > 1 or error.code == Code.FAILED_PRECONDITION)
        )
        for task in tasks:
            task.error = _error_of(partial(self._run_alone, task, fetches)) if again else error
        if error is not None and again and _are_alike(tasks) and not any(task.error for task in tasks):
            self._is_alone = True
            log.warning(
                "calls are not batched any more: a batch of %d calls failed, and each of them alone did not: %s",
                len(tasks),
                error.message,
            )
        for task in tasks:
            task.done.set()

    def _run_alone(self, task: Task, fetches: list[str]) -> None:
        remaining = task.deadline - time.monotonic()
        options = run_options(max(remaining, 0) if remaining < math.inf else None)
        task.outputs.update(zip(fetches, self._session.run(task.inputs, fetches, options), strict=True))

    def _run_batch(self, tasks: list[Task], fetches: list[str]) -> None:
        now = time.monotonic()
        for task in tasks:
            self._queued(now - task.enqueued)
        remaining = max(task.deadline for task in tasks) - now
        if remaining <= 0:
            text = "Run() timeout exceeded while waiting in batching queue"
            raise StatusError(Code.RESOURCE_EXHAUSTED, text)
        options = run_options(remaining if remaining < math.inf else None)
        rows = sum(task.rows for task in tasks)
        # Up to the smallest allowed size that holds them.
        padding = next((size for size in self._options.allowed_batch_sizes if size >= rows), rows) - rows
        feeds = {name: self._merge(name, tasks, padding) for name in tasks[0].inputs}
        outputs = self._session.run(feeds, fetches, options)
        for name, array in zip(fetches, outputs, strict=True):
            _split(name, array, tasks, rows + padding)

    def _merge(self, name: str, tasks: list[Task], padding: int) -> Array:
        arrays = [task.inputs[name] for task in tasks]
        if self._options.pad_variable_length_inputs:
            arrays = _padded(arrays)
        elif any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
            raise StatusError(
                Code.FAILED_PRECONDITION,
                f"Tensors with name '{name}' from different tasks have different shapes and padding is turned off."
                "Set pad_variable_length_inputs to true, or ensure that all tensors with the same name"
                "have equal dimensions starting with the first dim.",
            )
        # Copies of a valid row fill the batch.
        arrays += [arrays[-1][:1]] * padding
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def close(self) -> None:
        """Free the session; no call may be in progress."""
        for queue in self._queues.values():
            self._scheduler.remove_queue(queue)
        self._session.close()


def _error_of(run: Callable[[], None]) -> StatusError | None:
    try:
        run()
    except StatusError as error:
        return error
    except Exception as error:  # waiting calls must get it
        log.exception("a batch failed")
        return StatusError(Code.INTERNAL, str(error))
    return None


def _are_alike(tasks: Sequence[Task]) -> bool:
    """Return whether inputs have the same shapes but for their rows."""
    return len({tuple(sorted((name, array.shape[1:]) for name, array in task.inputs.items())) for task in tasks}) == 1


def _rows(feeds: Mapping[str, Array]) -> int:
    if not feeds:
        raise invalid("Batching Run() must have at least one input tensor")
    if any(array.ndim == 0 for array in feeds.values()):
        raise invalid("Batching Run() input tensors must have at least one dimension")
    sizes = {array.shape[0] for array in feeds.values()}
    if len(sizes) > 1:
        raise invalid("Batching Run() input tensors must have equal 0th-dimension size")
    return int(sizes.pop())


def _padded(arrays: list[Array]) -> list[Array]:
    """Pad all dimensions except the first to the longest, with each array's first value."""
    rank = arrays[0].ndim
    if any(array.ndim != rank for array in arrays) or rank > _LARGEST_PADDED_RANK:
        raise invalid("Only tensors with rank from 1 to 6 can be padded.")
    longest = np.max([array.shape for array in arrays], axis=0).tolist()
    return [_pad(array, (array.shape[0], *longest[1:])) for array in arrays]


def _pad(array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape == shape:
        return array
    if array.size == 0:
        raise invalid("Got empty tensor in batch of non-empty tensors.")
    padded = np.full(shape, array.flat[0], array.dtype)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded


def _split(name: str, array: Array, tasks: list[Task], rows: int) -> None:
    if array.ndim == 0:
        raise StatusError(Code.FAILED_PRECONDITION, "Batched output tensor has 0 dimensions")
    if array.shape[0] != rows:
        text = "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes"
        raise StatusError(Code.FAILED_PRECONDITION, f"{text} of the input tensors")
    start = 0
    for task in tasks:
        task.outputs[name] = array[start : start + task.rows]
        start += task.rows
