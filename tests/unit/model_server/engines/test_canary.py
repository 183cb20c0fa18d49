"""A comparison's child: what it said counts, and it cannot hold up a start for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model_server.engines import canary

NOW_AND_THEN = """
import time
for _ in range(6):
    time.sleep(1)
    used = time.process_time()
    while time.process_time() < used + 0.05: pass
"""


def run(code: str) -> tuple[bytes, str]:
    return canary.run([sys.executable, "-c", code])


def test_what_a_child_said_before_its_end_counts() -> None:
    assert run("print('said', flush=True); import os; os.abort()") == (b"said\n", "ended by signal 6")
    assert run("print('said'); raise OSError('why')") == (b"said\n", "failed: OSError: why")


def test_a_child_that_waits_for_ever_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "STILL_SECONDS", 3)
    said = run("print('said', flush=True); import time; time.sleep(600)")
    assert said == (b"said\n", "used no processor time for 3 s")


def test_a_child_that_computes_for_ever_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "TIME_LIMIT_SECONDS", 3)
    said = run("print('said', flush=True)\nwhile True: pass")
    assert said == (b"said\n", "took more than 3 s")


def test_a_child_that_computes_now_and_then_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "STILL_SECONDS", 4)
    assert run(NOW_AND_THEN) == (b"", "failed with exit code 0")


def test_no_child_is_left_where_waiting_for_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(child: subprocess.Popen[bytes]) -> str | None:
        (tmp_path / "id").write_text(str(child.pid))
        raise KeyboardInterrupt

    monkeypatch.setattr(canary, "_watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(600)")
    assert not Path(f"/proc/{(tmp_path / 'id').read_text()}").exists()
