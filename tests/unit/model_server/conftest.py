"""Real sessions of the recorded models, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from model_server.session import Session
from support.model_server import MODELS

Open = Callable[[str], Session]


@pytest.fixture
def open_model() -> Iterator[Open]:
    """Return what opens "name/version" of the recorded models; all are closed in the end."""
    opened: list[Session] = []

    def open_one(name: str) -> Session:
        opened.append(Session(str(MODELS / name), ["serve"]))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()
