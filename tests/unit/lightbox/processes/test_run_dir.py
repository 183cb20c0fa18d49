"""Ports of a run: two that start at the same moment do not take the same."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lightbox.processes.run_dir import RunDir, free_port


@pytest.fixture(autouse=True)
def _tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_port_is_claimed_once_before_anybody_listens() -> None:
    one, other, port = RunDir(), RunDir(), free_port()
    assert one.claim(port)
    assert not other.claim(port)
    one.remove()
    assert other.claim(port)
    other.remove()


def test_a_port_in_use_is_not_claimed() -> None:
    run_dir = RunDir()
    with socket.create_server(("0.0.0.0", 0)) as other:
        assert not run_dir.claim(other.getsockname()[1])
    run_dir.remove()


def test_removing_leaves_nothing(tmp_path: Path) -> None:
    run_dir = RunDir()
    (run_dir.path / "file").write_text("")
    run_dir.remove()
    assert not list(tmp_path.iterdir())
