"""From a folder to a running session: checks, loading, warm-up."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lightbox.model_runtime.deadline import deadline
from lightbox.model_runtime.engines import own_process
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.disk_cache import stamp_of
from lightbox.model_runtime.engines.engine import Choice, Opened
from lightbox.model_runtime.formats import holds_model, model_file
from lightbox.model_runtime.server.batching.batch_scheduler import BatchScheduler
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions
from lightbox.model_runtime.server.batching.session_batching import BatchingSession
from lightbox.model_runtime.server.monitoring import Metrics
from lightbox.model_runtime.server.servable import Servable
from lightbox.model_runtime.wire.dtypes import OWN_ROWS
from lightbox.model_runtime.wire.status import Code, StatusError

log = logging.getLogger(__name__)

TRIAL_SHARE = 2 / 3
"""Part of a load's time for the children that try it: the rest opens the model as they did."""


@dataclass(frozen=True)
class Loader:
    """Loads all models of this server."""

    engine: Callable[[str, Sequence[int]], Opened]
    """Opens the model in a folder for calls with these numbers of rows, and reports the engines."""
    metrics: Metrics
    report_dir: str = ""
    """Folder of each version's engine report, as NAME/VERSION.json; empty for none."""
    warm_up: Callable[[Servable, Runner], None] | None = None
    batching: Callable[[str], BatchingOptions | None] | None = None
    scheduler: BatchScheduler | None = None
    seconds: float = 0.0
    """Time limit of a load; 0 for none. Engines cannot be interrupted, so each file of theirs is opened by a child
    first, which can be ended."""

    def check(self, servable: Servable) -> None:
        """Raise StatusError for errors that a retry cannot fix."""
        if not Path(servable.path).is_dir():
            text = f"Error while attempting to reserve resources to load servable {servable}: {servable.path}"
            raise StatusError(Code.FAILED_PRECONDITION, f"{text}; Not a directory")

    def load(self, servable: Servable) -> Runner:
        """Return a running session for the version's folder; raise StatusError on failure."""
        if not holds_model(Path(servable.path)):
            text = "Specified file path does not appear to contain a SavedModel bundle (should have a file"
            raise StatusError(Code.NOT_FOUND, f"{text} called `saved_model.pb`)\nSpecified file path: {servable.path}")
        with self._limited():
            stamp = self._stamp(servable)
            opened, choices = self._open(servable.path)
            self._report(servable, choices, stamp)
            session = self._batched(servable, opened)
            try:
                self._warm(servable, session)
            except StatusError:
                session.close()
                raise
            return session

    @contextmanager
    def _limited(self) -> Iterator[None]:
        end = time.monotonic() + self.seconds

        def check() -> None:
            if self.seconds and time.monotonic() > end:
                raise StatusError(Code.DEADLINE_EXCEEDED, f"the load took more than {self.seconds:g} s")

        with deadline(check), own_process.limited(TRIAL_SHARE * self.seconds):
            yield

    def _stamp(self, servable: Servable) -> str:
        try:
            return stamp_of(Path(servable.path)) if self.report_dir else ""
        except OSError:
            return ""

    def _report(self, servable: Servable, choices: Mapping[str, Choice], stamp: str) -> None:
        if not self.report_dir:
            return
        path = Path(self.report_dir, quote(servable.name, safe=""), f"{servable.version}.json")
        content = {name: {**choice._asdict(), "files": stamp} for name, choice in choices.items()}
        try:
            if choices:
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_suffix(".new")
                new.write_text(json.dumps(content))
                new.replace(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            with suppress(OSError):  # that of an earlier load is no longer right
                path.unlink(missing_ok=True)
            log.warning("%s cannot be written: %s", path, error.strerror)

    def _open(self, path: str) -> Opened:
        start = time.perf_counter()
        try:
            opened = self.engine(path, self._batch_sizes(path))
        except StatusError:
            self.metrics.load_attempt_count.add(1, path, "fail")
            raise
        self.metrics.load_attempt_count.add(1, path, "success")
        self.metrics.load_latency.add(int((time.perf_counter() - start) * 1e6), path)
        return opened

    def _batch_sizes(self, path: str) -> Sequence[int]:
        """Return the most common numbers of rows of this model's calls."""
        options = self.batching(path) if self.batching is not None else None
        return (1,) if options is None else options.usual_sizes()

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
        """Wrap the session in a batcher if there are parameters for this model."""
        options = self.batching(servable.path) if self.batching is not None else None
        if options is None or self.scheduler is None:
            return session
        if model_file(Path(servable.path)) and not _takes_batches(session, options):
            log.info("%s: calls are not batched, as a tensor's first dimension is fixed", servable)
            return session
        return BatchingSession(session, options, self.scheduler, self.metrics.queued)


def _takes_batches(session: Runner, options: BatchingOptions) -> bool:
    """Return whether the first dimension of all tensors is open for rows, or equal to the only batch size.

    Most exporters of other formats fix it, while SavedModels leave it open: batched calls would all fail.
    """
    tensors = [info for item in session.signatures.values() for info in (*item.inputs.values(), *item.outputs.values())]
    shapes = [info.tensor_shape for info in tensors if not info.tensor_shape.unknown_rank]
    sizes = {shape.dim[0].size if shape.dim and shape.dim[0].name != OWN_ROWS else 0 for shape in shapes}
    return sizes <= {-1, *options.allowed_batch_sizes}
