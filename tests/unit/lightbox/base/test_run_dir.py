"""Ports of a run: two runs that start at the same time use different ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lightbox.base import run_dir as module
from lightbox.base.run_dir import RunDir, RunDirError
from lightbox.tools.harness.ports import free_ports


@pytest.fixture(autouse=True)
def _tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_port_is_claimed_once_before_anybody_listens() -> None:
    one, other, port = RunDir(), RunDir(), free_ports()
    assert one.claim(port)
    assert not other.claim(port)
    with socket.create_server(("0.0.0.0", port)):  # the server for which it is reserved
        pass
    one.remove()
    assert other.claim(port)
    other.remove()


def test_a_port_in_use_is_not_claimed() -> None:
    run_dir = RunDir()
    with socket.create_server(("0.0.0.0", 0)) as other:
        assert not run_dir.claim(other.getsockname()[1])
    run_dir.remove()


@pytest.fixture
def long_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_where_no_socket_can_be_the_start_ends(long_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORT_FOLDERS", ("/proc/one", "/proc/other"))
    with pytest.raises(RunDirError) as caught:
        RunDir()
    why = "is too long a path for unix sockets, and none of /proc/one, /proc/other can be written to"
    assert str(caught.value) == f"TMPDIR: {long_folder} {why}"
    assert not list(long_folder.iterdir())


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lightbox-planted").mkdir()
    (tmp_path / "lightbox-planted" / "lock").symlink_to("/etc/hostname")
    RunDir().remove()
    assert (tmp_path / "lightbox-planted").exists()
