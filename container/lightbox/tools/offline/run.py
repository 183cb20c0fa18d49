"""One run of ``lightbox predict``: it writes a row for each image, and shows its progress."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from types import FrameType
from typing import Any, TypeVar

from lightbox.base.control_characters import escape
from lightbox.base.telemetry.output import drawing
from lightbox.tools.client.image_files import counted
from lightbox.tools.offline.coco_results import CocoResults
from lightbox.tools.offline.drawn_photos import DrawnPhotos
from lightbox.tools.offline.endpoint import EndpointGone
from lightbox.tools.offline.rows import DENIED, UNREACHED_AT_MOST, Predictor, Row, in_order, rows
from lightbox.tools.offline.sources import Source, SourceError, read
from lightbox.tools.offline.storage import READERS, Denied
from lightbox.tools.offline.targets import Target

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOWN = 5
"""Kinds of errors, and problems with files, that are printed."""
MOST_KINDS, OTHERS = 1000, "other errors"
"""Errors that are counted each by itself, and what the rest is called."""
PROGRESS_SECONDS = 30.0
"""Seconds between two lines of progress. A terminal is updated more often."""


class Run:
    """A run with a source, an open target, and a model, an endpoint or a cluster."""

    def __init__(
        self,
        source: Source,
        target: Target,
        by: Predictor,
        stopping: threading.Event,
        photos: DrawnPhotos | None = None,
        coco: CocoResults | None = None,
    ) -> None:
        self._source, self._target, self._by, self._stopping = source, target, by, stopping
        self._photos, self._coco = photos, coco
        self._before = len(target.done)
        self._written = 0
        self._denied, self._has_read, self._is_interrupted = 0, False, False
        self._failed: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        """The first image of each error."""
        self._started = self._reported = time.monotonic()

    def run(self) -> int:
        """Answer the images that have no row yet and return the exit code. Raises SourceError and TargetError.

        If a source or an endpoint fails after the first image, the run ends as after a signal: it keeps its rows.
        """
        stopped = ""
        try:
            for row in self._rows():
                self._target.add(row)
                self._written += 1
                if row.error is not None:
                    error = row.error if row.error in self._failed or len(self._failed) < MOST_KINDS else OTHERS
                    self._failed[error] += 1
                    self._first.setdefault(error, row.path)
                    self._end_if_denied(row)
                self._show_progress()
        except (EndpointGone, SourceError) as problem:
            if not self._source.found:
                raise
            stopped = str(problem)
        self._target.flush()
        if self._stopping.is_set() and not stopped:
            stopped = "interrupted"
        if not stopped:
            if self._coco:
                self._coco.write(self._target.written())
            self._target.finish()
        self._show_end(stopped)
        if stopped == "interrupted":
            return 130
        return 1 if self._failed or stopped or self._source.problems else 0

    def stop(self, *_: object) -> None:
        """Handle a signal: the run ends after the images in progress, and at once after a second signal.

        Another handler for the second one would come too late: it may come while this one runs.
        """
        if self._is_interrupted:
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._stopping.set()

    def _rows(self) -> Iterator[Row]:
        photos = self._photos
        if photos is None:
            return rows(self._by, self._images())
        return photos.drawing(lambda: rows(self._by, photos.kept(self._images())))

    def _images(self) -> Iterator[tuple[str, Any]]:
        done = self._target.done
        items = (item for item in self._until_stopped(self._source.items()) if item[0] not in done)
        return items if self._by.reads else self._until_stopped(self._noted(in_order(read, items, READERS)))

    def _noted(self, images: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for path, content in images:
            self._has_read |= not isinstance(content, Denied)
            yield path, content

    def _until_stopped(self, items: Iterable[T]) -> Iterator[T]:
        return takewhile(lambda _: not self._stopping.is_set(), items)

    def _end_if_denied(self, last: Row) -> None:
        """Raise SourceError if S3 denies the first images, as many as have a row: each start goes further.

        An image that has been read may still be in progress.
        """
        self._denied += last.code == DENIED
        if not self._has_read and self._denied == self._written >= max(UNREACHED_AT_MOST, self._before):
            images = f"the first {self._denied:,} pictures (--again repeats them)"
            raise SourceError(f"S3 denies {images}; the last: {last.path}: {last.error}")

    def _show_progress(self) -> None:
        now = time.monotonic()
        is_terminal = sys.stderr.isatty()
        if now - self._reported < (0.2 if is_terminal else PROGRESS_SECONDS):
            return
        self._reported = now
        rate = self._written / (now - self._started)
        known = self._before + self._written
        line = f"{known:,} pictures, {rate:.1f}/s"
        if total := self._source.total:
            seconds = max(0, total - known) / rate
            line = f"{known:,} of {total:,} pictures, {rate:.1f}/s, {duration(seconds)} left"
        if self._failed:
            line += f", {self._failed.total():,} with an error"
        _clear_line()
        print(line, end="" if is_terminal else "\n", file=sys.stderr, flush=True)

    def _show_end(self, stopped: str) -> None:
        _clear_line()
        seconds = time.monotonic() - self._started
        before = f"; {self._before:,} had been answered before" if self._before else ""
        others = f"; {counted(self._source.others)} skipped" if self._source.others else ""
        images = "1 picture" if self._written == 1 else f"{self._written:,} pictures"
        rate = self._written / max(seconds, 1e-9)
        print(
            f"{images} in {duration(seconds)}, {rate:.1f}/s; {self._failed.total():,} with an error{before}{others}. "
            f"Rows: {self._target.to}"
        )
        for error, times in self._failed.most_common(SHOWN):
            more = " and others" if times > 1 else ""
            _say(f"{times} with an error: {self._first[error]}{more}: {error}")
        for problem in self._source.problems[:SHOWN]:
            _say(problem)
        if (unsaid := len(self._source.problems) + self._source.more_problems - SHOWN) > 0:
            _say(f"{unsaid:,} more of these")
        for problem in self._coco.problems if self._coco else ():
            _say(problem)
        if self._photos and self._photos.undrawn:
            _say(f"--draw leaves out pictures whose answers are no classes or objects: {self._photos.undrawn:,}")
        if stopped:
            say_stopped(stopped)


def duration(seconds: float) -> str:
    """Return a time in two units at most: 8.3 s, 12 min 5 s, 31 h 4 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


@contextmanager
def handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle SIGNALS with a function."""
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def say_stopped(why: str) -> None:
    """Print why a run has stopped."""
    _say(f"stopped: {why}. The same command goes on from here.")


def _say(sentence: str) -> None:
    print(f"lightbox predict: {escape(sentence)}", file=sys.stderr)


def _clear_line() -> None:
    if sys.stderr.isatty():
        with drawing() as drawn:
            drawn.write("\r\x1b[K")
