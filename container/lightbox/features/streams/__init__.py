"""Streams of frames: WebSockets whose binary messages are images and whose text messages are the predictions."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.machine.shared_files import SharedCounters
from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.base.telemetry.metrics import Metric
from lightbox.core.additions import ChildSpec, NginxParts
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from lightbox.core.start import Start

RENEW_SIGNAL = signal.SIGWINCH
"""Makes the streams process end the open streams. The process ignores it until its handler is set."""
OPEN = Metric("gauge", "lightbox_streams", "Open streams of frames.")
DROPPED = Metric("counter", "lightbox_stream_frames_dropped", "Frames dropped by streams with latest=true.")


def counters(run_dir: Path) -> SharedCounters:
    """Return the counters of the streams process. Its restart forgets open streams, and keeps the dropped frames."""
    return SharedCounters(run_dir / "streams.counts", "open", "dropped")


class StreamSettings(BaseModel):
    """The variable of streams."""

    model_config = PART

    streams: bool = setting("Streams of frames", "LIGHTBOX_STREAMS", default=False)
    """Serve [streams of frames](streams.md#streams-of-frames), WebSockets at `/invocations-bidirectional-stream`. At
    most 1000; others get 503."""


class Streams(Feature):
    """A process that holds the streams behind nginx; each frame is a request to nginx."""

    name = "streams"
    settings = StreamSettings
    paths = ("/invocations-bidirectional-stream",)
    without_nginx = "streams"
    metrics = (OPEN, DROPPED)

    @override
    def children(self, start: Start) -> Iterable[ChildSpec]:
        address = start.address("streams")
        arguments = [address, start.address("frames"), str(start.room), str(start.run_dir.path)]
        yield ChildSpec("streams", "the process for streams", f"{__name__}.process", arguments, [address], RENEW_SIGNAL)

    @override
    def needs_nginx(self, settings: Settings) -> Iterable[str]:
        return ["LIGHTBOX_STREAMS"]

    @override
    def nginx(self, start: Start) -> NginxParts:
        places = {"STREAMS": start.address("streams"), "FRAMES": start.address("frames")}
        return replace(NginxParts.of(Path(__file__).parent, **places), listens=(places["FRAMES"],))

    @override
    def measure(self, run_dir: Path) -> Mapping[Metric, float]:
        columns = counters(run_dir).read().values()
        return dict(zip((OPEN, DROPPED), map(sum, columns), strict=True))
