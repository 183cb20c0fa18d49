"""From a folder to a session that answers: checks, loading, warm-up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from model_server.batch_scheduler import BatchScheduler
from model_server.batching import BatchingSession
from model_server.batching_options import BatchingOptions
from model_server.engines.base import Runner
from model_server.engines.tensorflow import TensorFlowSession
from model_server.metrics import Metrics
from model_server.servable import Servable
from tfs_wire.status import Code, StatusError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loader:
    """How every SavedModel of this server is loaded."""

    tags: tuple[str, ...]
    session_config: bytes
    metrics: Metrics
    warm_up: Callable[[Servable, Runner], None] | None = None
    batching: Callable[[str], BatchingOptions | None] | None = None
    scheduler: BatchScheduler | None = None

    def check(self, servable: Servable) -> None:
        """Raise StatusError for what no second attempt can help."""
        if not Path(servable.path).is_dir():
            text = f"Error while attempting to reserve resources to load servable {servable}: {servable.path}"
            raise StatusError(Code.FAILED_PRECONDITION, f"{text}; Not a directory")

    def load(self, servable: Servable) -> Runner:
        """Return a running session for the version's folder; raise StatusError if it cannot be had."""
        folder = Path(servable.path)
        if not any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
            text = "Specified file path does not appear to contain a SavedModel bundle (should have a file"
            raise StatusError(Code.NOT_FOUND, f"{text} called `saved_model.pb`)\nSpecified file path: {servable.path}")
        session = self._batched(servable, self._open(servable.path))
        try:
            self._warm(servable, session)
        except StatusError:
            session.close()
            raise
        return session

    def _open(self, path: str) -> Runner:
        start = time.perf_counter()
        try:
            session = TensorFlowSession(path, self.tags, self.session_config)
        except StatusError:
            self.metrics.load_attempt_count.add(1, path, "fail")
            raise
        self.metrics.load_attempt_count.add(1, path, "success")
        self.metrics.load_latency.add(int((time.perf_counter() - start) * 1e6), path)
        return session

    def _warm(self, servable: Servable, session: Runner) -> None:
        if self.warm_up is None:
            return
        start, status = time.perf_counter(), "OK"
        try:
            self.warm_up(servable, session)
        except StatusError as error:
            status = str(error)
            raise
        finally:
            spent = (time.perf_counter() - start) * 1e6
            self.metrics.warmup_latency.observe(spent, servable.path, status)

    def _batched(self, servable: Servable, session: Runner) -> Runner:
        """Put a batcher in front of the session if there are parameters for this model."""
        options = self.batching(servable.path) if self.batching is not None else None
        if options is None or self.scheduler is None:
            return session
        return BatchingSession(session, options, self.scheduler, self.metrics.queued)
