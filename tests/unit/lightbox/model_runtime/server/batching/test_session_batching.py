"""Batching: the calls of each batch, the result of each caller, and error texts equal to TensorFlow Serving's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.tensorflow.session import TensorFlowSession
from lightbox.model_runtime.server import predict
from lightbox.model_runtime.server.batching.batch_scheduler import BatchScheduler
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions, read_options
from lightbox.model_runtime.server.batching.session_batching import BatchingSession
from lightbox.model_runtime.wire.messages import config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError
from support.patience import PATIENCE, poll

Open = Callable[[str], TensorFlowSession]


class Recorder:
    """A session that records its batches and can be paused."""

    def __init__(self, session: Runner) -> None:
        self.signatures = session.signatures
        self.batches: list[dict[str, Array]] = []
        self.free = threading.Event()
        self.free.set()
        self._session = session

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        self.batches.append(dict(feeds))
        self.free.wait(PATIENCE)
        return self._session.run(feeds, fetches, options)

    def close(self) -> None:
        self._session.close()


class Batched:
    """A batched signature with one input and one output."""

    def __init__(self, session: Runner, signature: str = "serving_default", **options: Any) -> None:
        self.recorder = Recorder(session)
        found = session.signatures[signature]
        self.feeds = [info.name for info in found.inputs.values()]
        self.fetches = [info.name for info in found.outputs.values()]
        settings = BatchingOptions(**{"num_batch_threads": 1, **options})
        self.session = BatchingSession(self.recorder, settings, BatchScheduler(settings.num_batch_threads))

    def call(self, *arrays: Array, options: bytes = b"") -> list[Array]:
        return self.session.run(dict(zip(self.feeds, arrays, strict=True)), self.fetches, options)

    def together(self, *inputs: Array) -> list[list[Array] | StatusError]:
        """Make the calls concurrently; return their results in order."""
        results: list[Any] = [None] * len(inputs)

        def one(index: int) -> None:
            try:
                results[index] = self.call(inputs[index])
            except StatusError as error:
                results[index] = error

        threads = [threading.Thread(target=one, args=(index,)) for index in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def sizes(self) -> list[int]:
        return [next(iter(feeds.values())).shape[0] for feeds in self.recorder.batches]


def row(*values: float) -> Array:
    return np.array(values, np.float32)


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


def test_a_full_queue_refuses(open_model: Open) -> None:
    batched = Batched(open_model("half_plus_two/1"), max_batch_size=1, max_enqueued_batches=2)
    batched.recorder.free.clear()
    first = threading.Thread(target=batched.call, args=(row(1),))
    first.start()
    wait_for(lambda: len(batched.recorder.batches) == 1)
    errors: list[StatusError] = []

    def call(value: float) -> None:
        try:
            batched.call(row(value))
        except StatusError as error:
            errors.append(error)
            batched.recorder.free.set()

    callers = [threading.Thread(target=call, args=(value,)) for value in range(4)]
    for caller in callers:
        caller.start()
    for caller in [*callers, first]:
        caller.join()
    assert {error.code for error in errors} == {Code.UNAVAILABLE}
    assert errors[0].message == (
        "The batch scheduling queue to which this task was submitted is full; "
        "currently 2 batches enqueued and max_enqueued_batches is 2"
    )


def wait_for(condition: Callable[[], bool]) -> None:
    assert any(condition() for _ in poll(pause=0.01))


def test_a_call_may_wait_too_long_in_the_queue(open_model: Open) -> None:
    batched = Batched(open_model("half_plus_two/1"), max_batch_size=1)
    batched.recorder.free.clear()
    first = threading.Thread(target=batched.call, args=(row(1),))
    first.start()
    wait_for(lambda: len(batched.recorder.batches) == 1)
    options = config_pb2.RunOptions(timeout_in_ms=1).SerializeToString()
    with ThreadPoolExecutor() as caller:
        second = caller.submit(batched.call, row(1), options=options)
        (queue,) = batched.session._queues.values()
        wait_for(lambda: queue.due() is not None)
        (task,) = queue._batches[0].tasks
        wait_for(lambda: time.monotonic() > task.deadline)
        batched.recorder.free.set()
        first.join()
    text = "RESOURCE_EXHAUSTED: Run() timeout exceeded while waiting in batching queue"
    assert str(second.exception()) == text


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


def test_parameters_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "batching"
    path.write_text(
        "max_batch_size { value: 8 } batch_timeout_micros { value: 1500 } max_enqueued_batches { value: 3 }\n"
        'num_batch_threads { value: 2 } thread_pool_name { value: "x" } pad_variable_length_inputs: true\n'
        "allowed_batch_sizes: 4 allowed_batch_sizes: 8"
    )
    assert read_options(str(path)) == BatchingOptions(
        8, 0.0015, 3, 2, (4, 8), pad_variable_length_inputs=True, max_execution_batch_size=8
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4",
            "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 4; expected 8",
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 9 allowed_batch_sizes: 8",
            "allowed_batch_sizes entries must be monotonically increasing",
        ),
        ("num_batch_threads { value: 0 }", "num_batch_threads must be positive; was 0"),
    ],
)
def test_parameters_that_make_no_sense(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "batching"
    path.write_text(text)
    with pytest.raises(StatusError) as caught:
        read_options(str(path))
    assert caught.value.message == error
