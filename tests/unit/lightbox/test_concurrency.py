"""Images are decoded a few at a time; who waits too long is told so, and nobody loses a place for good."""

from __future__ import annotations

import threading
import time

import pytest

from lightbox.concurrency import Turns, decoding_at_once
from lightbox.errors import DeadlineExceeded
from lightbox.request_context import RequestClock


@pytest.mark.parametrize(("cores", "workers", "at_once"), [(2, 2, 2), (1, 4, 2), (8, 1, 16), (8, 3, 6), (4, 16, 2)])
def test_a_worker_has_twice_its_share_of_the_cores(cores: int, workers: int, at_once: int) -> None:
    assert decoding_at_once(cores, workers) == at_once


def test_no_more_than_allowed_at_once() -> None:
    turns, inside, most, lock = Turns(2), 0, 0, threading.Lock()
    clocks = [RequestClock(30) for _ in range(6)]
    all_there = threading.Barrier(7)

    def work(clock: RequestClock) -> None:
        nonlocal inside, most
        all_there.wait(30)
        with turns.take(clock):
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.2)  # for the others to come and find no place
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work, args=(clock,)) for clock in clocks]
    for thread in threads:
        thread.start()
    all_there.wait(30)
    for thread in threads:
        thread.join(30)
    assert (inside, most) == (0, 2)
    assert sum("wait" in clock.stages for clock in clocks) == 4


def test_time_that_passes_while_waiting_is_told() -> None:
    turns, clock = Turns(1), RequestClock(0.05)
    late = pytest.raises(DeadlineExceeded, match="before its image could be decoded")
    with turns.take(RequestClock(30)), late, turns.take(clock):
        raise AssertionError("there was no place")
    with turns.take(RequestClock(30)):
        assert clock.stages["wait"] >= 0.04


def test_a_failure_gives_the_place_back() -> None:
    turns = Turns(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), turns.take(RequestClock(1)):
            raise ValueError("broken")
