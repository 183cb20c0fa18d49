"""A comparison's child process: its output counts, and it cannot block a start for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from lightbox.model_runtime.engines import own_process as child

pytestmark = pytest.mark.extended

TURNS = """
import sys, time
with open(sys.argv[1], "rb", 0) as asked, open(sys.argv[2], "wb", 0) as done:
    while asked.read(1) == b"t":
        used = time.process_time()
        while time.process_time() < used + 0.05: pass
        done.write(b"t")
"""
"""Computes for a moment on each request."""


def run(code: str, *arguments: str) -> tuple[bytes, str]:
    return child.run([sys.executable, "-c", code, *arguments])


def set_clock(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], float]) -> None:
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=clock))


@pytest.fixture
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the code of a child that prints and then waits for ever. The clock starts after the output."""
    said = tmp_path / "said"
    begun: list[float] = []

    def clock() -> float:
        if not begun and said.exists():
            begun.append(time.monotonic())
        return time.monotonic() - begun[0] if begun else 0.0

    set_clock(monkeypatch, clock)
    return f"print('said', flush=True); open({str(said)!r}, 'w'); import signal\nwhile True: signal.pause()"


def test_what_a_child_said_before_its_end_counts() -> None:
    assert run("print('said', flush=True); import os; os.abort()") == (b"said\n", "ended by signal 6")
    assert run("print('said'); raise OSError('why')") == (b"said\n", "failed: OSError: why")
    assert run(r"raise OSError('why\n\t [[a node of the graph]]')") == (b"", "failed: OSError: why")


def test_a_child_that_waits_for_ever_is_killed(waits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STILL_SECONDS", 3)
    assert run(waits) == (b"said\n", "used no processor time for 3 s")


def test_a_child_that_computes_for_ever_is_killed(waits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = count(1)
    monkeypatch.setattr(child, "_processor_seconds", lambda _: next(used))
    assert child.run([sys.executable, "-c", waits], most_seconds=3) == (b"said\n", "took more than 3 s")


def test_a_child_that_computes_now_and_then_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / "asked", tmp_path / "done"]
    for path in paths:
        os.mkfifo(path)
    asked, done = (os.open(path, os.O_RDWR) for path in paths)  # O_RDWR opens both ends, without waiting for the child
    seconds = count()

    def clock() -> float:
        """Advance one second, in which the child computes. The child ends after six seconds."""
        now = next(seconds)
        if now > 6:
            os.write(asked, b"e")
        elif now:
            os.write(asked, b"t")
            os.read(done, 1)
        return now

    set_clock(monkeypatch, clock)
    monkeypatch.setattr(child, "STILL_SECONDS", 4)
    assert run(TURNS, *map(str, paths)) == (b"", "failed with exit code 0")
    assert next(seconds) > 6
    os.close(asked)
    os.close(done)


def test_no_child_is_left_where_waiting_for_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(child: subprocess.Popen[bytes], _: float) -> str | None:
        (tmp_path / "id").write_text(str(child.pid))
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "_watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("import signal; signal.pause()")
    assert not Path(f"/proc/{(tmp_path / 'id').read_text()}").exists()
