"""The quick tests' many requests to a model server, in larger numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.hostile_grpc import MB, PING, PREFACE, SETTINGS, send_all, status
from support.many_requests import growth
from support.model_server import ModelServer, golden_server

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    yield from golden_server(tmp_path)


def test_ten_thousand_requests(tmp_path: Path) -> None:
    assert growth(tmp_path, early=1_000, late=10_000) <= 1.05


def test_a_flood_of_200_000_pings(server: ModelServer) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    send_all(server, PREFACE + SETTINGS + PING * 200_000)
    assert status(server) == "OK"
    assert process.memory_info().rss - before < 64 * MB
