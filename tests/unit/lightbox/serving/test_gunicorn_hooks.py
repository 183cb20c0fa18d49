from __future__ import annotations

import queue
import re
import signal
import subprocess
import sys
import threading

import pytest
from gunicorn.arbiter import Arbiter

from lightbox.serving import gunicorn_hooks
from support import commands
from support.parameters import each
from support.patience import PATIENCE


class Master:
    """The part of the master that a worker keeps after the fork: the queue that the master's signal handlers fill."""

    def __init__(self) -> None:
        self.SIG_QUEUE: queue.SimpleQueue[int] = queue.SimpleQueue()


class Worker:
    def __init__(self) -> None:
        self.alive = True
        self.signs = threading.Semaphore(0)

    def notify(self) -> None:
        self.signs.release()


def test_a_worker_gives_signs_of_life_until_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gunicorn_hooks, "BEAT_SECONDS", 0.01)
    worker, before = Worker(), set(threading.enumerate())
    gunicorn_hooks.post_fork(Master(), worker)
    (beating,) = set(threading.enumerate()) - before
    assert all(worker.signs.acquire(timeout=PATIENCE) for _ in range(3))
    gunicorn_hooks.post_worker_init(worker)
    beating.join(PATIENCE)
    assert not beating.is_alive()


def test_a_worker_that_never_loads_is_left_to_gunicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gunicorn_hooks, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(gunicorn_hooks, "LOAD_SECONDS", 0.05)
    before = set(threading.enumerate())
    gunicorn_hooks.post_fork(Master(), Worker())
    for beating in set(threading.enumerate()) - before:
        beating.join(PATIENCE)
        assert not beating.is_alive()


@each(
    ("left", "alive"),
    [
        ([], True),
        ([signal.SIGCHLD, signal.SIGHUP, Arbiter.WAKEUP_REQUEST], True),
        ([signal.SIGCHLD, signal.SIGTERM], False),
        ([signal.SIGINT], False),
        ([signal.SIGQUIT], False),
    ],
)
def test_a_stop_that_came_before_the_worker_had_its_handlers_counts(left: list[int], alive: bool) -> None:
    master, worker = Master(), Worker()
    gunicorn_hooks.post_fork(master, worker)
    for number in left:
        master.SIG_QUEUE.put(number)
    gunicorn_hooks.post_worker_init(worker)
    assert worker.alive is alive


def test_gunicorns_own_handler_leaves_signals_there() -> None:
    master = Master()
    Arbiter.signal(master, signal.SIGTERM, None)
    assert master.SIG_QUEUE.get_nowait() == signal.SIGTERM


FORKED = """
import os, signal, time
from lightbox.serving import gunicorn_hooks

gunicorn_hooks.keep_stops_through_forks()
came = []
signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
for _ in range(50):
    if not (child := os.fork()):
        for _ in range(3000):
            if came:
                os._exit(0)
            time.sleep(0.01)
        os._exit(1)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the signal is lost"
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
"""


def test_a_stop_that_comes_with_the_fork_counts() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=PATIENCE)


STARTED = """
import sys, threading, types
from pathlib import Path
from lightbox.serving import gunicorn_hooks

gunicorn_hooks.on_starting(types.SimpleNamespace())
assert "lightbox.serving.worker" in sys.modules
print(threading.active_count(), "numpy.random" in sys.modules, flush=True)
opened = [str(entry.resolve()) for entry in Path("/proc/self/fd").iterdir() if int(entry.name) > 2]
print([file for file in opened if "event" in file or "socket" in file])
"""


def test_what_the_master_imports_survives_a_fork() -> None:
    """The imports start no thread, seed no random numbers that all workers would share, and start no gRPC runtime."""
    shown = commands.output([sys.executable, "-c", STARTED])
    assert shown.splitlines() == ["1 False", "[]"]


def test_one_parser_reads_requests_whatever_is_installed() -> None:
    options = ["--config=python:lightbox.serving.gunicorn_hooks", "--print-config", "wsgiref.simple_server:demo_app"]
    shown = commands.output([sys.executable, "-P", "-m", "gunicorn", *options])
    assert re.search("^http_parser *= python$", shown, re.MULTILINE)
