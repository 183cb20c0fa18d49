"""Batching: the calls of each batch, the result of each caller, and error texts equal to TensorFlow Serving's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.server import predict
from lightbox.model_runtime.wire.status import Code, StatusError
from support.batching import Batched, Open, row, wait_for
from support.patience import PATIENCE


def test_concurrent_calls_are_joined_and_split_back(open_model: Open) -> None:
    batched = Batched(open_model("half_plus_two/1"), max_batch_size=4, timeout_seconds=PATIENCE)
    results = batched.together(row(1), row(2, 3), row(4))
    assert batched.sizes() == [4]
    assert [result[0].tolist() for result in results] == [[2.5], [3.0, 3.5], [4.0]]  # type: ignore[index]


def test_no_batch_is_larger_than_allowed(open_model: Open) -> None:
    batched = Batched(open_model("half_plus_two/1"), max_batch_size=4, timeout_seconds=0.05)
    results = batched.together(*[row(value, value, value) for value in range(5)])
    assert [result[0].tolist() for result in results] == [[value / 2 + 2] * 3 for value in range(5)]  # type: ignore[index]
    assert batched.sizes() == [3] * 5


def test_a_large_call_may_be_run_in_pieces(open_model: Open) -> None:
    options: dict[str, Any] = {"max_batch_size": 10, "max_execution_batch_size": 4, "split_large": True}
    batched = Batched(open_model("half_plus_two/1"), **options)
    assert batched.call(row(*range(10)))[0].tolist() == [value / 2 + 2 for value in range(10)]
    assert sorted(batched.sizes()) == [2, 4, 4]


def test_a_split_call_that_is_refused_leaves_no_piece_behind(open_model: Open) -> None:
    options: dict[str, Any] = {"max_batch_size": 8, "max_execution_batch_size": 2, "split_large": True}
    batched = Batched(open_model("half_plus_two/1"), max_enqueued_batches=1, **options)
    batched.recorder.free.clear()
    with ThreadPoolExecutor() as caller:
        first = caller.submit(batched.call, row(1, 2))
        wait_for(lambda: len(batched.recorder.batches) == 1)
        with pytest.raises(StatusError, match="UNAVAILABLE"):  # the queue has room for one of its two pieces
            batched.call(row(3, 4, 5, 6))
        batched.recorder.free.set()
        assert first.result()[0].tolist() == [2.5, 3]
    assert batched.call(row(7, 8))[0].tolist() == [5.5, 6]
    assert batched.sizes() == [2, 2]


def test_a_split_call_ends_when_all_its_pieces_have(open_model: Open) -> None:
    """After the call, its memory is reused and its session may be closed."""
    options: dict[str, Any] = {"max_batch_size": 8, "max_execution_batch_size": 2, "split_large": True}
    batched = Batched(open_model("half_plus_two/1"), max_enqueued_batches=4, **options)
    run, failing = batched.recorder.run, iter([StatusError(Code.INTERNAL, "the first piece"), None, None])

    def fails_first(feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        found = run(feeds, fetches, options)
        if error := next(failing):
            raise error
        return found

    batched.recorder.run = fails_first  # type: ignore[method-assign]
    with pytest.raises(StatusError, match="the first piece"):
        batched.call(row(1, 2, 3, 4, 5, 6))
    assert batched.sizes() == [2, 2, 2]


def test_a_batch_is_filled_up_to_an_allowed_size(open_model: Open) -> None:
    batched = Batched(open_model("half_plus_two/1"), max_batch_size=8, allowed_batch_sizes=(2, 8))
    assert batched.call(row(5, 6, 7))[0].tolist() == [4.5, 5.0, 5.5]
    padded = next(iter(batched.recorder.batches[0].values()))
    assert padded.tolist() == [5, 6, 7, 5, 5, 5, 5, 5]


@pytest.mark.parametrize("pad", [False, True])
def test_inputs_of_different_lengths(open_model: Open, pad: bool) -> None:
    options: dict[str, Any] = {"max_batch_size": 2, "timeout_seconds": PATIENCE, "pad_variable_length_inputs": pad}
    batched = Batched(open_model("half_plus_two/1"), **options)
    results = batched.together(np.array([[1, 2]], np.float32), np.array([[7, 8, 9]], np.float32))
    expected = [[[2.5, 3, 2.5]] if pad else [[2.5, 3]], [[5.5, 6, 6.5]]]
    assert sorted(result[0].tolist() for result in results) == expected  # type: ignore[index]
    assert len(batched.together(row(1), row(2))) == 2
    assert len(batched.recorder.batches[-1][batched.feeds[0]]) == 2, "other shapes are no reason to stop batching"


def test_strings_are_padded_too(open_model: Open) -> None:
    options: dict[str, Any] = {"max_batch_size": 2, "timeout_seconds": PATIENCE, "pad_variable_length_inputs": True}
    batched = Batched(open_model("strings/1"), "single", **options)
    results = batched.together(np.array([[b"a"]], object), np.array([[b"b", b"c"]], object))
    assert sorted(result[0].tolist() for result in results) == [[[b"A", b"A"]], [[b"B", b"C"]]]  # type: ignore[index]


def test_an_error_of_the_model_reaches_the_call_that_it_is_of(open_model: Open) -> None:
    batched = Batched(open_model("special_floats/1"), "float", max_batch_size=2, timeout_seconds=PATIENCE)
    bad, good = np.array([1000], np.int32), np.array([2], np.int32)
    failed, answered = batched.together(bad, good)
    assert isinstance(failed, StatusError)
    assert answered[0].tolist() == [1.0]  # type: ignore[index]
    assert batched.together(good, good)[0][0].tolist() == [1.0]  # type: ignore[index]
    assert len(batched.recorder.batches[-1][batched.feeds[0]]) == 2, "the model takes batches"


def test_a_model_that_takes_one_row_is_not_batched_again(open_model: Open, caplog: pytest.LogCaptureFixture) -> None:
    class OneRow:
        """It declares any number of rows, as graphs do that reshape to one."""

        signatures = open_model("half_plus_two/1").signatures

        def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
            (x,) = feeds.values()
            if len(x) > 1:
                raise StatusError(Code.INTERNAL, "cannot be reshaped")
            return [x / 2 + 2]

        def close(self) -> None: ...

    batched = Batched(OneRow(), max_batch_size=2, timeout_seconds=PATIENCE)
    assert [answer[0].tolist() for answer in batched.together(row(1), row(4))] == [[2.5], [4.0]]  # type: ignore[index]
    (line,) = caplog.messages
    assert "calls are not batched any more: a batch of 2 calls failed" in line
    assert batched.call(row(1))[0].tolist() == [2.5], "it waits for no second call"
    with pytest.raises(StatusError, match=r"INVALID_ARGUMENT: the model answers one row, .* got 2: send a request for"):
        predict.run(batched.session, {batched.feeds[0]: row(1, 4)}, {"y": batched.fetches[0]}, b"")


def test_a_bad_row_between_good_ones_is_not_blamed_on_their_number(open_model: Open) -> None:
    batched = Batched(open_model("special_floats/1"), "float")
    session, bad = batched.recorder, np.array([2, 1000, 2], np.int32)
    with pytest.raises(StatusError) as alone:
        session.run({batched.feeds[0]: bad}, batched.fetches)
    with pytest.raises(StatusError) as caught:
        predict.run(session, {batched.feeds[0]: bad}, {"y": batched.fetches[0]}, b"")
    assert str(caught.value) == str(alone.value)


def test_a_wrong_type_does_not_spoil_the_batch_of_others(open_model: Open) -> None:
    batched = Batched(open_model("half_plus_two/1"), max_batch_size=2, timeout_seconds=0.2)
    wrong, good = batched.together(np.array([1.0]), row(1))
    assert str(wrong) == "INVALID_ARGUMENT: Expects arg[0] to be float but double is provided"
    assert good[0].tolist() == [2.5]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ([np.float32(1), np.ones(1, np.int32)], "Batching Run() input tensors must have at least one dimension"),
        (
            [np.ones((2, 2), np.float32), np.ones(3, np.int32)],
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
    ],
)
def test_inputs_that_cannot_be_joined(open_model: Open, arrays: list[Array], text: str) -> None:
    batched = Batched(open_model("two_in_two_out/1"))
    named = dict(zip(batched.feeds, map(np.asarray, arrays), strict=True))
    with pytest.raises(StatusError, match="Batching Run") as caught:
        batched.session.run(named, batched.fetches)
    assert caught.value.message == text


@pytest.mark.parametrize("signature", ["one", "uneven"])
def test_outputs_that_cannot_be_split_are_answered_alone(open_model: Open, signature: str) -> None:
    session = open_model("scalar_out/1")
    batched = Batched(session, signature)
    alone = session.run({batched.feeds[0]: row(1, 2)}, batched.fetches)
    for _ in range(2):
        assert [array.tolist() for array in batched.call(row(1, 2))] == [array.tolist() for array in alone]


def test_calls_that_fetch_only_a_part_run_alone(open_model: Open) -> None:
    batched = Batched(open_model("scalar_out/1"), "uneven", timeout_seconds=PATIENCE)
    first = batched.session.run({batched.feeds[0]: row(1, 2)}, batched.fetches[:1])
    assert len(first) == 1


# ------------------------------------------------------------------ parameters
