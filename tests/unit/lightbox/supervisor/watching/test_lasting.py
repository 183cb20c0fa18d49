"""Tasks go on after a want of descriptors, and end with any other error."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from lightbox.supervisor.watching import lasting as module
from lightbox.supervisor.watching.lasting import lasting


def test_a_want_of_descriptors_passes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    errors = [OSError(number, os.strerror(number)) for number in (errno.EMFILE, errno.ENOSPC)]

    async def run() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert asyncio.run(lasting(run)) == 7
    assert "Too many open files" in capfd.readouterr().err
    errors.append(OSError(errno.ENOENT, "gone"))
    with pytest.raises(OSError, match="gone"):
        asyncio.run(lasting(run))
