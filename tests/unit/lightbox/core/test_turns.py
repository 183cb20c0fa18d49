"""Turns: first come, first served. A turn is not lost if its waiter gives up."""

from __future__ import annotations

import math
import threading

import pytest

from lightbox.base.request_context import Turns
from support.patience import PATIENCE, poll


def test_they_go_in_the_order_in_which_they_came() -> None:
    turns, order = Turns(1), list[int]()
    assert turns.acquire(0)

    def go(number: int) -> None:
        assert turns.acquire(PATIENCE)
        order.append(number)
        turns.release()

    threads = [threading.Thread(target=go, args=(number,)) for number in range(20)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        waited_for(turns, number)
    turns.release()
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_a_newcomer_does_not_pass_one_that_has_not_woken() -> None:
    turns, woken = Turns(1), threading.Event()
    assert turns.acquire(0)

    def wait() -> None:
        assert turns.acquire(PATIENCE)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    waited_for(turns, 1)
    turns.release()
    assert not turns.acquire(0), "it is the other's, awake or not"
    assert woken.wait(PATIENCE)
    turns.release()
    thread.join()
    assert turns.acquire(0)


def test_who_gives_up_leaves_the_queue() -> None:
    turns = Turns(1)
    assert turns.acquire(0)
    assert not turns.acquire(0.01)
    assert not turns.acquire(-1)
    turns.release()
    assert turns.acquire(0), "the turn did not go to those that gave up"


def test_a_wait_may_have_no_end() -> None:
    turns = Turns(1)
    assert turns.acquire(0)
    thread = threading.Thread(target=turns.acquire, args=(math.inf,))
    thread.start()
    waited_for(turns, 1)
    turns.release()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not turns.acquire(0), "it is the thread's"


@pytest.mark.parametrize("came", [False, True])
def test_no_turn_is_lost_by_an_interrupt(monkeypatch: pytest.MonkeyPatch, came: bool) -> None:
    """Ctrl-C arrives during the wait, or just after the turn is granted."""
    turns = Turns(1)
    assert turns.acquire(0)

    class Interrupted:
        def acquire(self, timeout: float | None = None) -> bool:
            if timeout is not None:
                if came:
                    turns.release()
                raise KeyboardInterrupt
            return True

        def release(self) -> None:
            pass

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(threading, "Lock", Interrupted)
        turns.acquire(PATIENCE)
    if not came:
        turns.release()
    assert turns.acquire(0)
    assert not turns.acquire(0)


def test_no_turn_is_lost_while_many_give_up() -> None:
    turns, inside, most = Turns(3), [0], [0]
    counted = threading.Lock()

    def go() -> None:
        for _ in range(300):
            if turns.acquire(0.0001):
                with counted:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with counted:
                    inside[0] -= 1
                turns.release()

    threads = [threading.Thread(target=go) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] <= 3
    assert [turns.acquire(0) for _ in range(4)] == [True, True, True, False]


def waited_for(turns: Turns, number: int) -> None:
    """Wait until ``number`` threads wait for a turn."""
    for _ in poll(pause=0.001):
        if len(turns._waiting) == number:
            return
