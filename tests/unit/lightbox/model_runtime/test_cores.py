"""Limit the images decoded at once. A wait beyond the deadline fails, and a failure frees its slot."""

from __future__ import annotations

import threading

import pytest

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.request_context import RequestContext
from lightbox.codecs.image import DecodeSlots, decoding_at_once
from support.parameters import each
from support.patience import PATIENCE


@each(("cores", "workers", "at_once"), [(2, 2, 2), (1, 4, 2), (8, 1, 16), (8, 3, 6), (4, 16, 2)])
def test_a_worker_has_twice_its_share_of_the_cores(cores: int, workers: int, at_once: int) -> None:
    assert decoding_at_once(cores, workers) == at_once


class WaitingContext(RequestContext):
    """A request context that signals when its wait for a slot begins."""

    waiting = threading.Semaphore(0)

    def remaining(self) -> float:
        self.waiting.release()
        return super().remaining()


def test_no_more_than_allowed_at_once() -> None:
    slots, inside, most, lock = DecodeSlots(2), 0, 0, threading.Lock()
    contexts = [WaitingContext(PATIENCE) for _ in range(6)]
    four_wait = threading.Event()

    def work(context: RequestContext) -> None:
        nonlocal inside, most
        with slots.take(context):
            with lock:
                inside += 1
                most = max(most, inside)
            assert four_wait.wait(PATIENCE)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work, args=(context,)) for context in contexts]
    for thread in threads:
        thread.start()
    for _ in range(4):
        assert WaitingContext.waiting.acquire(timeout=PATIENCE)
    four_wait.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert (inside, most) == (0, 2)
    assert sum("wait" in context.stages for context in contexts) == 4


class BriefContext(RequestContext):
    """A request context that always has 0.1 s left."""

    def remaining(self) -> float:
        return 0.1


def test_time_that_passes_while_waiting_is_a_stage() -> None:
    slots, context = DecodeSlots(1), BriefContext(0.1)
    late = pytest.raises(DeadlineExceeded, match="before its image could be decoded")
    with slots.take(RequestContext(PATIENCE)), late, slots.take(context):
        raise AssertionError("there was no place")
    with slots.take(RequestContext(PATIENCE)):
        assert context.stages["wait"] >= 0.1


def test_a_failure_gives_the_place_back() -> None:
    slots = DecodeSlots(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), slots.take(RequestContext(PATIENCE)):
            raise ValueError("broken")
