"""One version of a model: its state, its session, and its calls in progress."""

from __future__ import annotations

import itertools
import threading
from enum import IntEnum

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.wire.status import StatusError

_moves = itertools.count()


def moment() -> int:
    """Return a number larger than that of every earlier change of state (``Servable.moved``)."""
    return next(_moves)


class State(IntEnum):
    """States in the order of a version's life, numbered as in ``ModelVersionStatus``."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class Servable:
    """A version on its way from START to END; ``changed`` guards every field and wakes waiting threads.

    ``leaving``: no version is aspired in its place, so it is unloaded even if it is aspired again meanwhile.
    ``comes_back`` is the path for loading it again after it has ended, if it was aspired again before that. ``moved``
    is the moment at which it entered its state.
    """

    def __init__(self, name: str, version: int, path: str, changed: threading.Condition) -> None:
        self.name = name
        self.version = version
        self.path = path
        self.state = State.START
        self.error: StatusError | None = None
        self.moved = moment()
        self.aspired = True
        self.leaving = False
        self.comes_back: str | None = None
        self.session: Runner | None = None
        self._changed = changed
        self._calls = 0

    def __str__(self) -> str:
        return f"{{name: {self.name} version: {self.version}}}"

    def move(self, state: State, error: StatusError | None = None) -> None:
        """Enter ``state``; ``error`` is the reason for the end of a load."""
        with self._changed:
            self.state = state
            self.error = error
            self.moved = moment()
            self._changed.notify_all()

    def enter(self) -> Runner:
        """Count a call and return the session; the caller holds ``changed`` and calls ``leave`` later."""
        assert self.session is not None
        self._calls += 1
        return self.session

    def leave(self) -> None:
        """Stop counting a call."""
        with self._changed:
            self._calls -= 1
            if not self._calls and self.state is not State.AVAILABLE:  # then ``drain`` may wait
                self._changed.notify_all()

    def drain(self) -> None:
        """Wait until no call is in progress."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls == 0)
