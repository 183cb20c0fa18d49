"""Removes expired sessions while Lightbox runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lightbox.features.sessions.store import SessionStore

PAUSE_SECONDS = 1.0


async def expire_sessions(sessions: SessionStore) -> None:
    """Remove what has expired about once a second, for ever.

    Workers refuse a session from the moment of its expiry: this gives its memory back.
    """
    while True:
        with suppress(OSError):  # a folder that somebody removed is no reason to end
            sessions.remove_expired()
        await asyncio.sleep(PAUSE_SECONDS)
