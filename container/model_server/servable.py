"""One version of a model: its state, its session, and the calls that are under way in it."""

from __future__ import annotations

import threading
from enum import IntEnum

from model_server.session import Runner
from tfs_wire.status import StatusError


class State(IntEnum):
    """States in the order of a version's life, numbered as in ``ModelVersionStatus``."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class Servable:
    """A version on its way from START to END; ``changed`` guards every field and wakes who waits.

    ``comes_back`` is the path to load it from again once it has ended, when it was aspired again before that.
    """

    def __init__(self, name: str, version: int, path: str, changed: threading.Condition) -> None:
        self.name = name
        self.version = version
        self.path = path
        self.state = State.START
        self.error: StatusError | None = None
        self.aspired = True
        self.comes_back: str | None = None
        self.session: Runner | None = None
        self._changed = changed
        self._calls = 0

    def __str__(self) -> str:
        return f"{{name: {self.name} version: {self.version}}}"

    def move(self, state: State, error: StatusError | None = None) -> None:
        """Enter ``state``; ``error`` says why a load ended."""
        with self._changed:
            self.state = state
            self.error = error
            self._changed.notify_all()

    def enter(self) -> Runner:
        """Count a call in and return the session; the caller holds ``changed`` and calls ``leave`` later."""
        assert self.session is not None
        self._calls += 1
        return self.session

    def leave(self) -> None:
        """Count a call out."""
        with self._changed:
            self._calls -= 1
            if not self._calls:
                self._changed.notify_all()

    def drain(self) -> None:
        """Wait until no call is under way."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls == 0)
