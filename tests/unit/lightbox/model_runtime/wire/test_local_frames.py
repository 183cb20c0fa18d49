"""Frames of the local transport in shared memory."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lightbox.model_runtime.wire.local_frames import GREETING, receive
from lightbox.model_runtime.wire.predict_request import read_predict_request
from lightbox.transports import local
from lightbox.transports.local import LocalTransport
from support.local_transport import asked, doubled, falling_back, serving
from support.patience import poll


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def transport(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTransport]:
    with falling_back(path, monkeypatch) as transport:
        yield transport


AT_MOST_SHARED = local.MOST_SHARED // 4
"""Numbers of a tensor that does not fit the largest memory, with its message around it; 100 less do."""


def test_a_connection_gives_way_to_one_with_enough_memory(path: Path, transport: LocalTransport) -> None:
    with serving(path) as server:
        for size in (3, 100_000, 3, 1_000_000, AT_MOST_SHARED, 3):
            assert asked(transport, size) == ("local", [2.0 * number for number in range(size)])
            assert any(server.connections() == 1 for _ in poll())


def test_tensors_are_where_numpy_reads_them_without_a_copy(path: Path, transport: LocalTransport) -> None:
    aligned = []

    def predict(request: memoryview, seconds: float) -> bytes:
        contents = read_predict_request(request)[1]
        aligned.append(np.frombuffer(contents["x"], np.float32).flags.aligned)
        return doubled(request, seconds)

    with serving(path, predict):
        assert [asked(transport, size)[0] for size in (3, 1000, 100_000)] == ["local"] * 3
    assert aligned == [True] * 3


@pytest.mark.parametrize("kind", ["none", "a pipe", "one that can shrink", "an empty one"])
def test_a_server_reads_no_memory_that_could_end_it(path: Path, kind: str) -> None:
    with serving(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert bytes(receive(client, len(GREETING))) == GREETING
        opened = []
        if kind == "a pipe":
            opened = list(os.pipe())
        elif kind == "one that can shrink":
            opened = [os.memfd_create("shrinks", os.MFD_ALLOW_SEALING)]
            os.ftruncate(opened[0], 1 << 16)
        elif kind == "an empty one":
            opened = [os.memfd_create("empty", os.MFD_ALLOW_SEALING)]
            fcntl.fcntl(opened[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        socket.send_fds(client, [b"\0"], opened[:1])
        assert client.recv(1) == b""
        for descriptor in opened:
            os.close(descriptor)
