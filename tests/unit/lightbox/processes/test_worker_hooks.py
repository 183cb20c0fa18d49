from __future__ import annotations

import threading

import pytest

from lightbox.processes import worker_hooks


class Worker:
    def __init__(self) -> None:
        self.signs = threading.Semaphore(0)

    def notify(self) -> None:
        self.signs.release()


def test_a_worker_gives_signs_of_life_until_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_hooks, "BEAT_SECONDS", 0.01)
    worker, before = Worker(), set(threading.enumerate())
    worker_hooks.post_fork(None, worker)
    (beating,) = set(threading.enumerate()) - before
    assert all(worker.signs.acquire(timeout=10) for _ in range(3))
    worker_hooks.post_worker_init(worker)
    beating.join(10)
    assert not beating.is_alive()


def test_a_worker_that_never_loads_is_left_to_gunicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_hooks, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(worker_hooks, "LOAD_SECONDS", 0.05)
    before = set(threading.enumerate())
    worker_hooks.post_fork(None, Worker())
    for beating in set(threading.enumerate()) - before:
        beating.join(10)
        assert not beating.is_alive()
