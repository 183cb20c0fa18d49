"""The life of a version: its state, and the calls that it waits for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import create_autospec

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server.servable import Servable, State
from lightbox.model_runtime.wire.status import Code, StatusError
from support.patience import PATIENCE


def test_a_version_ends_after_its_last_call() -> None:
    changed = threading.Condition()
    servable = Servable("net", 1, "/models/net/1", changed)
    servable.session = create_autospec(Runner, instance=True)
    with ThreadPoolExecutor(1) as pool:
        with changed:
            assert servable.enter() is servable.enter() is servable.session
        end = pool.submit(servable.drain)
        servable.leave()
        assert not end.done()
        servable.leave()
        end.result(PATIENCE)


def test_each_state_is_later_than_that_of_another_version() -> None:
    changed = threading.Condition()
    one, other = (Servable("net", version, "", changed) for version in (1, 2))
    one.move(State.LOADING)
    assert one.moved > other.moved
    other.move(State.END, StatusError(Code.NOT_FOUND, "gone"))
    assert other.moved > one.moved
    assert (str(other), str(other.error), one.error) == ("{name: net version: 2}", "NOT_FOUND: gone", None)
