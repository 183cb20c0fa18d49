"""A batched signature, its calls, and the batches that reach its session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.tensorflow.session import TensorFlowSession
from lightbox.model_runtime.server.batching.batch_scheduler import BatchScheduler
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions
from lightbox.model_runtime.server.batching.session_batching import BatchingSession
from lightbox.model_runtime.wire.status import StatusError
from support.patience import PATIENCE, poll

Open = Callable[[str], TensorFlowSession]


class Recorder:
    """A session that records its batches and can be paused."""

    def __init__(self, session: Runner) -> None:
        self.signatures = session.signatures
        self.batches: list[dict[str, Array]] = []
        self.free = threading.Event()
        self.free.set()
        self._session = session

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        self.batches.append(dict(feeds))
        self.free.wait(PATIENCE)
        return self._session.run(feeds, fetches, options)

    def close(self) -> None:
        self._session.close()


class Batched:
    """A batched signature with one input and one output."""

    def __init__(self, session: Runner, signature: str = "serving_default", **options: Any) -> None:
        self.recorder = Recorder(session)
        found = session.signatures[signature]
        self.feeds = [info.name for info in found.inputs.values()]
        self.fetches = [info.name for info in found.outputs.values()]
        settings = BatchingOptions(**{"num_batch_threads": 1, **options})
        self.session = BatchingSession(self.recorder, settings, BatchScheduler(settings.num_batch_threads))

    def call(self, *arrays: Array, options: bytes = b"") -> list[Array]:
        return self.session.run(dict(zip(self.feeds, arrays, strict=True)), self.fetches, options)

    def together(self, *inputs: Array) -> list[list[Array] | StatusError]:
        """Make the calls concurrently; return their results in order."""
        results: list[Any] = [None] * len(inputs)

        def one(index: int) -> None:
            try:
                results[index] = self.call(inputs[index])
            except StatusError as error:
                results[index] = error

        threads = [threading.Thread(target=one, args=(index,)) for index in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def sizes(self) -> list[int]:
        return [next(iter(feeds.values())).shape[0] for feeds in self.recorder.batches]


def row(*values: float) -> Array:
    return np.array(values, np.float32)


def wait_for(condition: Callable[[], bool]) -> None:
    assert any(condition() for _ in poll(pause=0.01))
