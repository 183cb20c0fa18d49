"""Processes that hang are told from busy ones, and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from lightbox.supervisor.child import Child
from lightbox.supervisor.watching.hang_watch import MOST_SECONDS, HangWatch, Probe, Silence, Watched, activity, runs
from support.patience import PATIENCE, poll

SECONDS = 20
SLEEPS = "import time; print('up', flush=True); time.sleep(10 ** 6)"
THREADS_WORK = f"import threading\nthreading.Thread(target=exec, args=('while True: pass',)).start()\n{SLEEPS}"
HAS_WORKER = f"import os, signal\nprint(os.fork() or signal.pause(), flush=True)\n{SLEEPS}"


@pytest.mark.parametrize(
    ("ticks", "runnable", "seconds"), [([7, 7], False, 2.0), ([8, 9], False, 0.2), ([7, 7], True, 0.2)]
)
def test_the_clock_of_a_process_that_works_is_slow(ticks: list[int], runnable: bool, seconds: float) -> None:
    silence = Silence(0, 0.0, 1.0)
    silence.note(2.0, 7, 1.0, lambda: runnable)
    for used in ticks:
        silence.note(2.0, used, 1.0, lambda: runnable)
    assert silence.seconds == pytest.approx(seconds)
    silence.note(3.0, 9, 1.0, lambda: runnable)
    assert silence.seconds == 0.0


def test_a_pause_of_all_processes_counts_little() -> None:
    silence = Silence(0, 0.0, 1.0)
    silence.note(1.0, 0, 3600.0, lambda: False)
    assert silence.seconds == MOST_SECONDS


class World:
    """A child that runs a Python script, and the watch that follows it."""

    def __init__(self, script: str) -> None:
        self.child = Child("server", [sys.executable, "-c", script], dict(os.environ), edit=self._hear)
        self.lines: list[str] = []
        self.counted: list[str] = []
        self.known: list[bool] = []
        self._heard = asyncio.Event()

    def _hear(self, line: str) -> None:
        self.lines.append(line)
        self._heard.set()

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[int]:
        """Run the child; yield its process."""
        running = asyncio.create_task(self.child.run())
        async with asyncio.timeout(PATIENCE):
            await self._heard.wait()
        assert self.child.process is not None
        yield self.child.process
        self.child.kill()
        await running

    def watch(self, probe: Probe, workers: Probe = lambda _: None, allowance: float = 0.0) -> HangWatch:
        watched = Watched(self.child, probe, allowance, workers, self.known.append)
        return HangWatch([watched], SECONDS, self.counted.append)

    async def settle(self) -> None:
        """Wait for the end of the child."""
        async with asyncio.timeout(PATIENCE):
            while self.child.running:
                await asyncio.sleep(0.01)


def play(script: str, story: Callable[[World, int], object]) -> None:
    async def play_it() -> None:
        world = World(script)
        async with world.playing() as process:
            await until(lambda: "up" in world.lines)
            story(world, process)
            if world.counted == ["server"]:
                await world.settle()

    asyncio.run(play_it())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def never(process: int) -> float:
    return 0.0


def wait_for_state(process: int, state: str) -> None:
    """Wait until the kernel reports a state: S sleeps, T is stopped."""
    assert any((seen := activity(process)) and seen.state == state for _ in poll(pause=0.001))


def stop(process: int) -> None:
    """Stop a process, as a stand-in for one that hangs."""
    os.kill(process, signal.SIGSTOP)
    wait_for_state(process, "T")


@pytest.mark.parametrize("act", [stop, lambda process: wait_for_state(process, "S")], ids=["stopped", "waiting"])
def test_a_process_that_neither_answers_nor_works_is_killed(
    act: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def story(world: World, process: int) -> None:
        act(process)
        watch = world.watch(never)
        for _ in range(SECONDS - 1):
            watch.look(1.0)
        assert world.counted == []
        while not world.counted:  # its processor time up to now may be counted in no look, in one or in several
            watch.look(1.0)
        assert (world.counted, world.known[0], world.known[-2:]) == (["server"], False, [True, False])

    play(SLEEPS, story)
    assert "server (process " in (said := capsys.readouterr().err)
    assert "has not answered for 20 s: it is killed and started again (LIGHTBOX_HANG_SECONDS)" in said


def test_a_process_whose_threads_work_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def story(world: World, process: int) -> None:
        watch = world.watch(never)
        for _ in range(4 * SECONDS):  # a look counts a fifth, and in full if no thread is about to run
            watch.look(1.0)
        assert (world.counted, world.child.running) == ([], True)
        for _ in range(6 * SECONDS):
            watch.look(1.0)
        assert world.counted == ["server"]  # it works, but never answers

    play(THREADS_WORK, story)


def test_a_new_process_has_the_time_of_a_load() -> None:
    def story(world: World, process: int) -> None:
        answers = [5.0]  # the last one of the process before
        watch = world.watch(lambda _: answers[-1], allowance=60.0)
        stop(process)
        for _ in range(SECONDS + 59):  # one less: the first may be a whole second or a tenth
            watch.look(1.0)
        assert world.counted == []
        answers.append(6.0)
        for _ in range(SECONDS):
            watch.look(1.0)
        assert (world.counted, world.known[-1]) == ([], True)
        watch.look(1.0)
        assert world.counted == ["server"]

    play(SLEEPS, story)


def test_a_process_that_never_answers_names_the_setting_of_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    def story(world: World, process: int) -> None:
        stop(process)
        watch = world.watch(never, allowance=60.0)
        while not world.counted:
            watch.look(1.0)

    play(SLEEPS, story)
    said = capsys.readouterr().err
    assert "has not answered for 80 s: it is killed and started again (SAGEMAKER_TFS_WAIT_TIME_SECONDS)" in said


def test_of_a_master_and_its_workers_only_the_stopped_one_is_killed() -> None:
    def story(world: World, process: int) -> None:
        worker = int(world.lines[0])
        watch = world.watch(runs, runs)
        watch.look(1.0)
        for _ in range(2 * SECONDS):
            watch.look(1.0)
        assert world.counted == []
        stop(worker)
        for _ in range(SECONDS + 1):
            watch.look(1.0)
        assert (world.counted, world.child.running) == (["server_worker"], True)

    play(HAS_WORKER, story)
