"""Removes expired sessions while Lightbox runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lightbox.features.sessions.store import SessionStore

PAUSE_SECONDS = 1.0


async def expire_sessions(sessions: SessionStore) -> None:
    """Remove expired sessions about once a second, forever.

    Workers refuse a session from the moment of its expiry: this releases its memory.
    """
    while True:
        with suppress(OSError):  # such as a removed folder
            sessions.remove_expired()
        await asyncio.sleep(PAUSE_SECONDS)
