"""A server with the recorded models, one for all contract tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.model_server import ModelServer, golden_server


@pytest.fixture(scope="session")
def recorded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """The stand-in with the recorded server's models and flags; tests leave it as they found it."""
    yield from golden_server(tmp_path_factory.mktemp("recorded"))
