"""Queues of tasks to be batched, and the threads that run whole batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions
from lightbox.model_runtime.wire.status import Code, StatusError, invalid


@dataclass
class Task:
    """One request, or a piece of it: its inputs by tensor name, and later its outputs or its error."""

    inputs: dict[str, Array]
    rows: int
    deadline: float
    enqueued: float = field(default_factory=time.monotonic)
    outputs: dict[str, Array] = field(default_factory=dict)
    error: StatusError | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Batch:
    tasks: list[Task] = field(default_factory=list)
    rows: int = 0
    opened: float = 0.0


class BatchQueue:
    """Batches of one kind of request (same inputs, same outputs); the last one is open."""

    def __init__(self, options: BatchingOptions, process: Callable[[list[Task]], None]) -> None:
        self.options = options
        self.process = process
        self._batches = deque([_Batch()])

    def add(self, tasks: Sequence[Task]) -> None:
        """Add the tasks of a call to the open batch and to new ones, all or none.

        Raises INVALID_ARGUMENT for a task that is too large, and UNAVAILABLE when the queue is full.
        """
        limit = self.options.max_execution_batch_size if self.options.split_large else self.options.max_batch_size
        batch, new = self._batches[-1], list[_Batch]()
        placed = []
        rows = batch.rows
        for task in tasks:
            if task.rows > self.options.max_batch_size:
                text = f"Task size {task.rows} is larger than maximum input batch size"
                raise invalid(f"{text} {self.options.max_batch_size}")
            if rows + task.rows > limit:
                batch, rows = _Batch(), 0
                new.append(batch)
            placed.append((batch, task))
            rows += task.rows
        waiting, allowed = len(self._batches), self.options.max_enqueued_batches
        if new and waiting + len(new) > allowed:
            text = "The batch scheduling queue to which this task was submitted is full; currently"
            text += f" {waiting} batches enqueued and max_enqueued_batches is {allowed}"
            raise StatusError(Code.UNAVAILABLE, text)
        self._batches.extend(new)
        for batch, task in placed:
            batch.opened = batch.opened or time.monotonic()
            batch.tasks.append(task)
            batch.rows += task.rows

    def space(self) -> int:
        """Return how many more rows the open batch takes."""
        return self.options.max_execution_batch_size - self._batches[-1].rows

    def due(self) -> float | None:
        """Return when the first batch may run (0 for at once), None without a batch."""
        if len(self._batches) > 1:
            return 0.0
        batch = self._batches[0]
        if not batch.tasks:
            return None
        full = batch.rows >= min(self.options.max_batch_size, self.options.max_execution_batch_size)
        return 0.0 if full else batch.opened + self.options.timeout_seconds

    def take(self) -> list[Task]:
        """Remove the first batch."""
        batch = self._batches.popleft()
        if not self._batches:
            self._batches.append(_Batch())
        return batch.tasks


class BatchScheduler:
    """Threads that all queues of the server share."""

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._queues: list[BatchQueue] = []
        for index in range(threads):
            threading.Thread(target=self._work, name=f"batch-{index}", daemon=True).start()

    def add_queue(self, queue: BatchQueue) -> None:
        """Serve one more queue."""
        with self._changed:
            self._queues.append(queue)

    def remove_queue(self, queue: BatchQueue) -> None:
        """Serve a queue no longer; it has no tasks."""
        with self._changed:
            self._queues.remove(queue)

    def submit(self, queue: BatchQueue, tasks: Callable[[], list[Task]]) -> list[Task]:
        """Add the tasks that ``tasks`` makes while the queue is locked; return them."""
        with self._changed:
            added = tasks()
            queue.add(added)
            self._changed.notify()
            return added

    def _work(self) -> None:
        while True:
            queue, tasks = self._next()
            queue.process(tasks)

    def _next(self) -> tuple[BatchQueue, list[Task]]:
        with self._changed:
            while True:
                waiting = [(due, queue) for queue in self._queues if (due := queue.due()) is not None]
                due, queue = min(waiting, key=lambda item: item[0], default=(None, None))
                now = time.monotonic()
                if queue is not None and due is not None and due <= now:
                    # The queues take turns.
                    self._queues.remove(queue)
                    self._queues.append(queue)
                    if len(waiting) > 1:
                        self._changed.notify()
                    return queue, queue.take()
                self._changed.wait(None if due is None else due - now)
