"""A folder from start to end: which images to send, how many at a time, what to record, when to stop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lightbox.client.folder.concurrency import MOST, Concurrency
from lightbox.client.folder.journal import Journal
from lightbox.client.folder.retries import Outcome, Retrying

IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".gif", ".webp", ".avif", ".bmp", ".dib"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
)
UNREACHED_AT_MOST = 10
"""After this many images in a row without a response the endpoint counts as gone."""


@dataclass(frozen=True)
class Folder:
    """The images of a folder and its subfolders, sorted by path, and the number of other files."""

    images: tuple[Path, ...]
    others: int

    @property
    def other_files(self) -> str:
        """The other files in words."""
        return f"{self.others} file{'' if self.others == 1 else 's'} of other kinds"

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each existing image, by path."""
        return {str(path): path.stat().st_size for path in self.images if path.exists()}


def find_images(folder: Path) -> Folder:
    """Find the images by their suffixes. Hidden files and folders are ignored."""
    images, others = [], 0
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if Path(name).suffix.lower() in IMAGE_ENDINGS and not name.startswith("."):
                images.append(Path(root, name))
            else:
                others += not name.startswith(".")
    return Folder(tuple(sorted(images)), others)


@dataclass
class Report:
    """The result of a run. ``stopped`` is the reason for an early end; else empty."""

    answered: int = 0
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The paths of the failed images, by error."""
    seconds: float = 0.0
    concurrency: int = 0
    stopped: str = ""
    interrupted: bool = False

    @property
    def failed(self) -> int:
        """Number of images without a 200."""
        return sum(map(len, self.failures.values()))


def predict_all(images: Sequence[Path], retrying: Retrying, concurrency: Concurrency, journal: Journal) -> Report:
    """Send the images and record each result. Raises as the journal and the sender do.

    After an interrupt the images in flight finish.
    """
    report = Report()
    started = time.monotonic()
    with _bar(len(images)) as bar, ThreadPoolExecutor(MOST) as threads:
        try:
            _send_all(images, threads, retrying, concurrency, _Recorder(journal, report, concurrency, bar, started))
        except KeyboardInterrupt:
            report.interrupted, report.stopped = True, "interrupted"
        finally:
            retrying.stopping.set()
    report.seconds = time.monotonic() - started
    return report


class _Recorder:
    """Records each outcome and shows it."""

    def __init__(
        self, journal: Journal, report: Report, concurrency: Concurrency, bar: Progress, started: float
    ) -> None:
        self._journal, self.report, self._concurrency, self._bar = journal, report, concurrency, bar
        self._started = started
        self._unreached = 0

    def note(self, outcome: Outcome) -> bool:
        """Record an outcome; return whether to continue."""
        record, report = outcome.record, self.report
        self._journal.append(record)
        now = time.monotonic()
        self._concurrency.answered(now, outcome.refusals)
        report.concurrency = self._concurrency.limit
        if record.good:
            report.answered += 1
        else:
            report.failures.setdefault(record.error or f"status {record.status}", []).append(record.path)
        done = report.answered + report.failed
        rate = f"{done / max(now - self._started, 1e-9):.0f}/s"
        self._bar.update(
            self._bar.task_ids[0], advance=1, rate=rate, limit=self._concurrency.limit, failed=report.failed
        )
        self._unreached = 0 if outcome.reached else self._unreached + 1
        if self._unreached >= UNREACHED_AT_MOST:
            report.stopped = f"no response for {UNREACHED_AT_MOST} images in a row; the last error: {record.error}"
        return not report.stopped


def _send_all(
    images: Sequence[Path], threads: ThreadPoolExecutor, retrying: Retrying, concurrency: Concurrency, noting: _Recorder
) -> None:
    left: Iterator[Path] = iter(images)
    running: set[Future[Outcome]] = set()
    going_on = True
    try:
        while True:
            while going_on and len(running) < concurrency.limit and (path := next(left, None)) is not None:
                running.add(threads.submit(retrying.predict, path))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                going_on = noting.note(future.result()) and going_on
            if not going_on:
                retrying.stopping.set()
    except KeyboardInterrupt:
        retrying.stopping.set()
        for future in wait(running).done:
            noting.note(future.result())
        raise


def _bar(total: int) -> Progress:
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("images"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}  {task.fields[limit]} at a time  {task.fields[failed]} failed "),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    progress.add_task("images", total=total, rate="", limit=0, failed=0)
    return progress
