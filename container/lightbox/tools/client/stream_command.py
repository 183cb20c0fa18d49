"""``lightbox stream``: the images of a folder over one WebSocket, with frames a second and latency."""

from __future__ import annotations

import json
import math
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from lightbox.base.control_characters import escape
from lightbox.base.telemetry import output
from lightbox.tools.client.http import MOST_RESPONSE, BadResponse, is_loopback
from lightbox.tools.client.image_files import counted, find_images
from lightbox.tools.client.invoke import LOCAL

ROUTE = "/invocations-bidirectional-stream"
RESPONSE_SECONDS, _SHOWN = 120.0, 500


@dataclass
class Report:
    """The results of the frames; ``milliseconds`` is from the sending of each answered frame to its response."""

    frames: int
    answered: int = 0
    failed: int = 0
    dropped: int = 0
    seconds: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    ended: str = ""

    def line(self) -> str:
        """Return the report as a line."""
        times = sorted(self.milliseconds) or [0.0]
        p50, p95 = statistics.median(times), times[math.ceil(0.95 * len(times)) - 1]
        rate = (self.answered + self.failed) / self.seconds if self.seconds else 0.0
        return (
            f"{self.frames} frames: {self.answered} answered, {self.failed} failed, {self.dropped} dropped; "
            f"{rate:.1f} frames/s, latency p50 {p50:.1f} ms, p95 {p95:.1f} ms{self.ended}"
        )


class NothingSent(click.ClickException):
    """No frame was sent; the message says why."""

    exit_code = 2


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [value.partition("=") for value in values]
    if wrong := next((value for value, pair in zip(values, pairs, strict=True) if not pair[1]), None):
        raise click.BadParameter(f"expected NAME=VALUE, got {wrong!r}")
    return [(name, value) for name, _, value in pairs]


@click.command("stream", epilog="Example: lightbox stream frames --fps 30 --latest --out answers.jsonl")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--url", default=LOCAL, show_default=True, help="Address of the endpoint.")
@click.option(
    "--choose",
    "chosen",
    multiple=True,
    callback=_pairs,
    metavar="NAME=VALUE",
    help="Option of the stream (docs/streams.md); repeatable.",
)
@click.option("--latest", is_flag=True, help="Drop stale frames instead of waiting.")
@click.option("--fps", type=float, default=0.0, help="Frames per second; by default as many as are answered.")
@click.option(
    "--out", "out_file", type=click.Path(path_type=Path), help="File for the responses, one JSON object per line."
)
def command(
    folder: Path, url: str, chosen: list[tuple[str, str]], latest: bool, fps: float, out_file: Path | None
) -> int:
    """Send a folder of images as frames of a stream.

    The frames go over one WebSocket, in the order of their paths. The exit code is 0 if all frames were answered or,
    with --latest, dropped, 1 if some failed or the stream ended, 2 if none was sent.
    """
    listing = find_images(folder)
    if not listing.images:
        raise NothingSent(f"{folder}: holds no images; {counted(listing.others)}")
    pairs = [*chosen, *([("latest", "true")] if latest else [])]
    address = url.replace("http", "ws", 1).rstrip("/") + ROUTE
    try:
        with (
            connect(
                f"{address}?{urlencode(pairs)}",
                compression=None,
                max_size=MOST_RESPONSE,
                proxy=None if is_loopback(address) else True,
            ) as stream,
            out_file.open("w") if out_file else nullcontext() as out,
        ):
            report = send_all(stream, listing.images, fps, out)
    except InvalidHandshake as refused:
        body = getattr(getattr(refused, "response", None), "body", b"") or b""
        raise NothingSent(escape(f"{address}: {refused} {body[:_SHOWN].decode(errors='replace')}")) from None
    except (OSError, ConnectionClosed) as problem:
        raise NothingSent(f"{address}: {problem}") from None
    others = f"; {counted(listing.others)} skipped" if listing.others else ""
    click.echo(escape(f"{report.line()}{others}"))
    return 1 if report.failed or report.ended else 0


def send_all(stream: ClientConnection, images: Sequence[Path], fps: float, out: IO[str] | None) -> Report:
    """Send each image as a frame, ``fps`` a second if above 0, and read the responses."""
    report, sent = Report(len(images)), [0.0] * (len(images) + 1)
    began = time.monotonic()
    sender = threading.Thread(target=_send, args=(stream, images, fps, sent), daemon=True)
    sender.start()
    columns = (TextColumn("frames"), *Progress.get_default_columns()[1:3], MofNCompleteColumn(), TimeRemainingColumn())
    # Its own stream: stderr writes no control characters.
    with output.drawing() as drawn, Progress(*columns, console=Console(file=drawn)) as progress:
        bar = progress.add_task("frames", total=len(images))
        try:
            while report.answered + report.failed + report.dropped < len(images):
                response = _read(stream.recv(RESPONSE_SECONDS), len(images))
                _note(report, response, sent)
                if out is not None:
                    print(json.dumps({"image": images[response["frame"] - 1].name, **response}), file=out)
                progress.update(bar, completed=response["frame"])
        except ConnectionClosed as closed:
            report.ended = f"; the stream ended: {closed}"
        except BadResponse as error:
            report.ended = f"; {error}"
        except TimeoutError:
            report.ended = f"; no answer came within {RESPONSE_SECONDS:g} s"
    report.seconds = time.monotonic() - began
    return report


def _read(text: str | bytes, frames: int) -> dict[str, Any]:
    """Return the document of a response to one of so many frames. Raises BadResponse."""
    try:
        response: dict[str, Any] = json.loads(text)
        numbers = {name: int(response.get(name, 0)) for name in ("frame", "status", "dropped")}
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        numbers = {"frame": 0}
    if not (1 <= numbers["frame"] <= frames and 0 <= numbers["dropped"] <= frames):
        raise BadResponse("an answer cannot be read")
    return response | numbers


def _send(stream: ClientConnection, images: Sequence[Path], fps: float, sent: list[float]) -> None:
    began = time.monotonic()
    for number, path in enumerate(images, start=1):
        if fps:
            time.sleep(max(0.0, began + (number - 1) / fps - time.monotonic()))
        data = path.read_bytes()
        sent[number] = time.monotonic()
        try:
            stream.send(data)
        except ConnectionClosed:  # the reader reports it
            return


def _note(report: Report, response: dict[str, Any], sent: list[float]) -> None:
    if response["status"] < 400:
        report.answered += 1
    else:
        report.failed += 1
    report.dropped += response.get("dropped", 0)
    report.milliseconds.append((time.monotonic() - sent[response["frame"]]) * 1000)
