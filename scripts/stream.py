"""Sends the images of a folder over one WebSocket, as frames of a stream, and shows frames a second and latency.

scripts/stream.py frames                                   as fast as the model answers, nothing lost
scripts/stream.py frames --fps 30 --latest                 as a camera does: frames that are stale are dropped
scripts/stream.py frames --choose tfs-model-name=digits --out answers.jsonl

The frames of a video: ffmpeg -i video.mp4 -q:v 2 frames/%06d.jpg
Exit code 0: every frame was answered or, with --latest, dropped; 1: some failed or the stream ended; 2: none was sent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from folder_prediction.run import look_through

ROUTE = "/invocations-bidirectional-stream"
LOCAL = "http://localhost:8080"
ANSWER_SECONDS = 120.0


@dataclass
class Report:
    """What became of the frames; ``milliseconds`` is from the sending of each answered frame to its answer."""

    frames: int
    answered: int = 0
    failed: int = 0
    dropped: int = 0
    seconds: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    ended: str = ""

    def line(self) -> str:
        """Return it in a line."""
        times = sorted(self.milliseconds) or [0.0]
        p50, p95 = statistics.median(times), times[int(0.95 * (len(times) - 1))]
        rate = (self.answered + self.failed) / self.seconds if self.seconds else 0.0
        return (
            f"{self.frames} frames: {self.answered} answered, {self.failed} failed, {self.dropped} dropped; "
            f"{rate:.1f} frames/s, latency p50 {p50:.1f} ms, p95 {p95:.1f} ms{self.ended}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the folder as the command line says and return the exit code."""
    options = parse(arguments)
    folder = look_through(options.folder)
    if not folder.images:
        print(f"stream.py: {options.folder}: holds no images; {folder.other_files}", file=sys.stderr)
        return 2
    pairs = [*options.choose, *([("latest", "true")] if options.latest else [])]
    url = options.url.replace("http", "ws", 1).rstrip("/") + ROUTE
    try:
        with (
            connect(f"{url}?{urlencode(pairs)}", compression=None, max_size=None) as stream,
            options.out.open("w") if options.out else nullcontext() as out,
        ):
            report = send_all(stream, folder.images, options.fps, out)
    except InvalidHandshake as refused:
        body = getattr(getattr(refused, "response", None), "body", b"") or b""
        print(f"stream.py: {url}: {refused} {body.decode(errors='replace')}", file=sys.stderr)
        return 2
    except (OSError, ConnectionClosed) as problem:
        print(f"stream.py: {url}: {problem}", file=sys.stderr)
        return 2
    others = f"; {folder.other_files} skipped" if folder.others else ""
    print(f"{report.line()}{others}")
    return 1 if report.failed or report.ended else 0


def send_all(stream: ClientConnection, images: Sequence[Path], fps: float, out: IO[str] | None) -> Report:
    """Send each image as a frame, ``fps`` a second where that is above 0, and read the answers."""
    report, sent = Report(len(images)), [0.0] * (len(images) + 1)
    began = time.monotonic()
    sender = threading.Thread(target=_send, args=(stream, images, fps, sent), daemon=True)
    sender.start()
    columns = (TextColumn("frames"), *Progress.get_default_columns()[1:3], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("frames", total=len(images))
        try:
            while report.answered + report.failed + report.dropped < len(images):
                told = json.loads(stream.recv(ANSWER_SECONDS))
                _note(report, told, sent)
                if out is not None:
                    print(json.dumps({"image": images[told["frame"] - 1].name, **told}), file=out)
                progress.update(bar, completed=told["frame"])
        except ConnectionClosed as closed:
            report.ended = f"; the stream ended: {closed}"
        except TimeoutError:
            report.ended = f"; no answer came within {ANSWER_SECONDS:g} s"
    report.seconds = time.monotonic() - began
    return report


def _send(stream: ClientConnection, images: Sequence[Path], fps: float, sent: list[float]) -> None:
    began = time.monotonic()
    for number, path in enumerate(images, start=1):
        if fps:
            time.sleep(max(0.0, began + (number - 1) / fps - time.monotonic()))
        data = path.read_bytes()
        sent[number] = time.monotonic()
        try:
            stream.send(data)
        except ConnectionClosed:  # the reader says why
            return


def _note(report: Report, told: dict[str, Any], sent: list[float]) -> None:
    if told["status"] < 400:
        report.answered += 1
    else:
        report.failed += 1
    report.dropped += told.get("dropped", 0)
    report.milliseconds.append((time.monotonic() - sent[told["frame"]]) * 1000)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folder", type=Path, help="the folder; its images are sent in the order of their paths, hidden files are not")
    add("--url", default=LOCAL, help=f"the endpoint, {LOCAL} by default")
    add("--choose", action="append", type=_pair, default=[], metavar="NAME=VALUE", help="see docs/streams.md")
    add("--latest", action="store_true", help="drop stale frames instead of waiting")
    add("--fps", type=float, default=0.0, help="frames a second; as many as are answered by default")
    add("--out", type=Path, help="a file for the answers, a line of JSON each")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"{options.folder}: expected a folder of images")
    return options


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
