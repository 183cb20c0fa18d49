"""Child processes and their leftovers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from lightbox.processes.child import Child

ENDS_BEFORE_ITS_WORKER = """
(trap "echo late; exit" TERM; touch ready; while :; do sleep 0.05; done) &
until [ -e ready ]; do sleep 0.05; done
exit 3
"""


def test_an_end_is_reported_before_orphans_have_finished(tmp_path: Path) -> None:
    child = Child("master", ["sh", "-c", ENDS_BEFORE_ITS_WORKER], dict(os.environ), cwd=tmp_path)
    printed: list[list[str]] = []
    child.on_end = lambda: printed.append(list(child.last_lines))
    assert asyncio.run(child.run()) == 3
    child.kill()
    assert printed == [[]]
