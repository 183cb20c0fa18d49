"""Real sessions of the recorded models, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lightbox.engines.tensorflow.session import TensorFlowSession
from support.model_server import MODELS

Open = Callable[[str], TensorFlowSession]


@pytest.fixture
def open_model() -> Iterator[Open]:
    """Return what opens "name/version" of the recorded models; all are closed in the end."""
    opened: list[TensorFlowSession] = []

    def open_one(name: str) -> TensorFlowSession:
        opened.append(TensorFlowSession(str(MODELS / name), ["serve"]))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()
