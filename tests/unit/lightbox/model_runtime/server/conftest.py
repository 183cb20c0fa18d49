"""Open real sessions of the recorded models in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lightbox.model_runtime.engines.tensorflow.session import TensorFlowSession
from support.model_server import MODELS

Open = Callable[[str], TensorFlowSession]


@pytest.fixture
def open_model() -> Iterator[Open]:
    """Return a function that opens "name/version" of the recorded models; close all sessions at the end."""
    opened: list[TensorFlowSession] = []

    def open_one(name: str) -> TensorFlowSession:
        opened.append(TensorFlowSession(str(MODELS / name), ["serve"]))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()
