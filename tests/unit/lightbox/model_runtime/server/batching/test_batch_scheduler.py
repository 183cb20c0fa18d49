"""The queue of a batch."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from lightbox.model_runtime.wire.messages import config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError
from support.batching import Batched, Open, row, wait_for


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
