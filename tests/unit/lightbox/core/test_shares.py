"""Shares: turns and places, so that no model holds what others need."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from lightbox.base.errors import BadRequest, QueueFull, RateLimited
from lightbox.base.request_context import PRIORITY_HEADER, Turn, is_batch
from lightbox.core.places import Places
from lightbox.core.shares import REFUSAL_SECONDS, Shares
from support.patience import PATIENCE, poll


def begun(shares: Shares, model: str, count: int) -> list[Turn]:
    """Return the turns of those of ``count`` requests that begin at once; the others give up."""
    turns = []
    for _ in range(count):
        turn = shares.enter(model, PATIENCE)
        if turn.begin(0):
            turns.append(turn)
        else:
            turn.end()
    return turns


def end(turns: Sequence[Turn]) -> None:
    for turn in turns:
        turn.end()


def wait_for_queue(shares: Shares, model: str = "", number: int = 1) -> None:
    """Wait until this many requests of a model wait."""
    assert any(len(shares._queues[model].waiting) == number for _ in poll(pause=0.001))


def test_one_model_alone_has_all_turns() -> None:
    shares = Shares(8)
    assert len(begun(shares, "", 20)) == 8


def test_a_model_leaves_turns_for_others() -> None:
    shares = Shares(8, several=True)
    assert [len(begun(shares, name, 20)) for name in ("a", "b", "c", "d")] == [4, 2, 1, 1]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_few_turns_still_serve(turns: int) -> None:
    shares = Shares(turns, several=True)
    for name in ("a", "b"):
        found = begun(shares, name, 4)
        assert found
        end(found)


def test_a_turn_goes_to_the_model_with_the_fewest() -> None:
    shares, order = Shares(2, several=True), list[str]()
    (first,), (second,) = begun(shares, "a", 1), begun(shares, "b", 1)
    waiting = [(name, shares.enter(name, PATIENCE)) for name in ("a", "a", "c")]

    def go(name: str, turn: Turn) -> None:
        assert turn.begin(PATIENCE)
        order.append(name)
        turn.end()

    threads = [threading.Thread(target=go, args=both) for both in waiting]
    for thread, (name, number) in zip(threads, (("a", 1), ("a", 2), ("c", 1)), strict=True):
        thread.start()
        wait_for_queue(shares, name, number)
    second.end()
    threads[2].join()
    assert order[0] == "c"
    first.end()
    for thread in threads:
        thread.join()
    assert order == ["c", "a", "a"]


def test_the_users_code_has_no_turn() -> None:
    shares = Shares(2, several=True)
    waiting = []
    for _ in range(2):
        (turn,) = begun(shares, "slow", 1)
        turn.leave()
        waiting.append(turn)
    assert not begun(shares, "slow", 1), "as many run as have turns"
    (other,) = begun(shares, "quick", 1)
    waiting[0].take(PATIENCE)
    other.end()
    end(waiting)
    assert len(begun(shares, "slow", 2)) == 1


def test_the_users_code_keeps_its_turn_if_threads_are_given() -> None:
    shares = Shares(1, keeps_turns=True)
    (turn,) = begun(shares, "", 1)
    turn.leave()
    assert not begun(shares, "", 1)
    turn.end()
    assert begun(shares, "", 1)


def test_a_request_that_would_wait_too_long_is_refused() -> None:
    shares = Shares(1)
    (turn,) = begun(shares, "", 1)
    shares._queues[""].seconds = 5.0
    waiting = shares.enter("", PATIENCE)
    thread = threading.Thread(target=waiting.begin, args=(PATIENCE,))
    thread.start()
    wait_for_queue(shares)
    with pytest.raises(QueueFull, match="wait for 5 s, 4 s are left"):
        shares.enter("", 4)
    shares.enter("", 6).end()
    turn.end()
    thread.join()


def test_a_cancelled_request_does_not_begin() -> None:
    shares = Shares(1)
    (turn,) = begun(shares, "", 1)
    assert not turn.cancel()
    early = shares.enter("", PATIENCE)
    assert early.cancel()
    assert not early.begin(PATIENCE)
    late, came = shares.enter("", PATIENCE), list[bool]()
    thread = threading.Thread(target=lambda: came.append(late.begin(PATIENCE)))
    thread.start()
    wait_for_queue(shares)
    assert late.cancel()
    thread.join()
    assert came == [False]


def test_a_concurrency_counts_in_all_processes(tmp_path: Path) -> None:
    both = [Shares(8, Places(tmp_path, 100, 4), lambda model: 3) for _ in range(2)]
    first, second = begun(both[0], "m", 2), begun(both[1], "m", 2)
    assert (len(first), len(second)) == (2, 1)
    late, came = both[1].enter("m", PATIENCE), list[bool]()
    thread = threading.Thread(target=lambda: came.append(late.begin(PATIENCE)))
    thread.start()
    end(first)
    thread.join()
    assert came == [True]
    late.end()
    end(second)


def test_a_concurrency_is_not_bounded_by_turns_while_the_users_code_runs(tmp_path: Path) -> None:
    shares = Shares(2, Places(tmp_path, 100, 4), lambda model: 50)
    for _ in range(50):
        (turn,) = begun(shares, "m", 1)
        turn.leave()
    assert not begun(shares, "m", 1)


def test_a_key_has_so_many_requests_at_once(tmp_path: Path) -> None:
    shares = Shares(8, Places(tmp_path, 4, 0), several=True)
    first = shares.enter("a", PATIENCE, ("ci", 2))
    with pytest.raises(QueueFull):  # the model has its share, and the key gets its place back
        for _ in range(2):
            shares.enter("a", PATIENCE)
            shares.enter("a", PATIENCE, ("ci", 2))
    second = shares.enter("b", PATIENCE, ("ci", 2))
    with pytest.raises(RateLimited):
        shares.enter("b", PATIENCE, ("ci", 2))
    for turn in (first, second):
        turn.end()
    shares.enter("b", PATIENCE, ("ci", 2)).end()


def test_batch_requests_go_last_and_leave_half_of_the_places() -> None:
    shares, order = Shares(1, most=8), list[str]()
    (first,) = begun(shares, "", 1)
    waiting = [(name, shares.enter("", PATIENCE, batch=name == "batch")) for name in ("batch", "now", "batch", "now")]

    def go(name: str, turn: Turn) -> None:
        assert turn.begin(PATIENCE)
        order.append(name)
        turn.end()

    threads = [threading.Thread(target=go, args=both) for both in waiting]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        wait_for_queue(shares, number=number)
    with pytest.raises(QueueFull):
        shares.enter("", PATIENCE, batch=True)
    shares.enter("", PATIENCE).end()
    first.end()
    for thread in threads:
        thread.join()
    assert order == ["now", "now", "batch", "batch"]


def test_a_priority_is_one_of_two() -> None:
    assert [is_batch({PRIORITY_HEADER: value}.get) for value in ("", "interactive", "batch")] == [False, False, True]
    with pytest.raises(BadRequest, match="expected batch or interactive, got 'high'"):
        is_batch({PRIORITY_HEADER: "high"}.get)


def test_few_refusals_wait_and_the_others_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, paused, over = Shares(1, most=4), threading.Event(), threading.Event()
    times: list[float] = []

    def sleep(seconds: float) -> None:
        times.append(seconds)
        paused.set()
        assert over.wait(PATIENCE)

    monkeypatch.setattr(time, "sleep", sleep)
    first = threading.Thread(target=shares.pause, args=[0.25])
    first.start()
    assert paused.wait(PATIENCE)
    shares.pause(PATIENCE)
    assert times == [0.25]
    over.set()
    first.join(PATIENCE)
    shares.pause(PATIENCE)
    assert times == [0.25, REFUSAL_SECONDS]
