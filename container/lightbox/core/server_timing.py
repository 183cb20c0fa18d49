"""The header ``Server-Timing``: https://www.w3.org/TR/server-timing/."""

from __future__ import annotations

from lightbox.core.request_context import RequestContext

SERVER_TIMING = "Server-Timing"


def server_timing(context: RequestContext) -> str:
    """Return the header's value: milliseconds of each stage and of the whole, and the wire."""
    told = [f"{name};dur={seconds * 1000:.3f}" for name, seconds in context.durations().items()]
    told += context.timings
    return ", ".join([*told, f'wire;desc="{context.transport}"'] if context.transport else told)
