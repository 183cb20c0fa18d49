"""Child processes and their leftovers."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path

import pytest

from lightbox.base.telemetry.line_limit import few_lines, record_lines
from lightbox.supervisor import child as module
from lightbox.supervisor.child import PAUSE_SECONDS, Child
from support.patience import PATIENCE

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


OUTLIVED_BY_ITS_WORKER = """
(trap "" TERM; touch ready; until [ -e go ]; do sleep 0.01; done; echo late) &
until [ -e ready ]; do sleep 0.01; done
exit 3
"""


def test_the_next_start_does_not_wait_for_orphans_whose_output_is_forwarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_OUTPUT_SECONDS", PATIENCE)
    child = Child("master", ["sh", "-c", OUTLIVED_BY_ITS_WORKER], dict(os.environ), cwd=tmp_path)

    async def replace() -> None:
        assert await child.run() == 3  # the orphan waits for this
        (tmp_path / "go").touch()
        async with asyncio.timeout(PATIENCE):
            while list(child.last_lines) != ["late"]:
                await asyncio.sleep(0.01)

    asyncio.run(replace())


def test_many_children_leave_the_loops_threads_to_others() -> None:
    children = [Child("sleeper", ["sleep", "1000"], dict(os.environ)) for _ in range(40)]

    async def serve() -> None:
        running = [asyncio.create_task(child.run()) for child in children]
        async with asyncio.timeout(PATIENCE):
            assert await Child("short", ["true"], dict(os.environ)).run() == 0
            assert await asyncio.to_thread(lambda: True)
            for child in children:
                await child.stop(PATIENCE)
            await asyncio.gather(*running)

    asyncio.run(serve())


def test_a_flood_of_lines_is_cut_off_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    script = "yes short | head -n 5000; head -c 30000 /dev/zero; echo; echo last >&2"
    child = Child("talker", ["sh", "-c", script], dict(os.environ))
    child.limit = few_lines("talker")
    assert asyncio.run(child.run()) == 0
    text = capsys.readouterr().err
    assert len(text) < 64_000
    counted = sum(map(int, re.findall(r"(\d+) log lines of talker were dropped: more than 512 bytes per second", text)))
    assert counted == child.limit.dropped == 5002 - text.count("] short") - text.count("\\x00 … ") - text.count("last")
    assert child.last_lines[-1] == "last"


def test_not_every_line_that_may_wait_wakes_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, feed = [], asyncio.StreamReader.feed_data

    def note(stream: asyncio.StreamReader, data: bytes) -> None:
        reads.append(data)
        feed(stream, data)

    monkeypatch.setattr(asyncio.StreamReader, "feed_data", note)
    script = "import time\nfor n in range(200): print(f'{n}:full', flush=True) or time.sleep(0.002)\ntime.sleep(1)"
    child = Child("busy", [sys.executable, "-c", script], dict(os.environ))
    child.may_wait = "full"
    started = time.monotonic()
    assert asyncio.run(child.run()) == 0
    assert b"".join(reads).split() == [b"%d:full" % number for number in range(200)]
    assert len(reads) <= (time.monotonic() - started) / PAUSE_SECONDS + 2


def test_other_lines_are_read_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", PATIENCE)
    lines: list[str] = []

    def edit(line: str) -> str:
        lines.append(line)
        (tmp_path / line).touch()  # the process waits for it
        return line

    script = "for line in one two; do echo $line; until [ -e $line ]; do sleep 0.01; done; done"
    child = Child("calm", ["sh", "-c", script], dict(os.environ), cwd=tmp_path, edit=edit)
    child.may_wait = "full"
    asyncio.run(asyncio.wait_for(child.run(), PATIENCE))
    assert lines == ["one", "two"]


def test_a_processs_records_stay_beside_a_librarys_flood(capsys: pytest.CaptureFixture[str]) -> None:
    script = "yes '2026-11-25 04:00:09,534 E forged' | head -n 5000; for n in $(seq 100); do echo 1f3E record; done"
    child = Child("server", ["sh", "-c", script], dict(os.environ))
    child.mark = "1f3"
    child.limit, child.record_limit = few_lines("server"), record_lines("server")
    assert asyncio.run(child.run()) == 0
    text = capsys.readouterr().err
    assert (text.count("] E record"), child.record_limit.dropped) == (100, 0)
    assert child.dropped == child.limit.dropped > 4000
