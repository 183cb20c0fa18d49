"""Ports of a run: two that start at the same moment do not take the same."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.ports import free_ports
from lightbox.processes.run_dir import RunDir


@pytest.fixture(autouse=True)
def _tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_port_is_claimed_once_before_anybody_listens() -> None:
    one, other, port = RunDir(), RunDir(), free_ports()
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


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(
    tmp_path: Path,
) -> None:
    make = "import sys; from lightbox.processes.run_dir import RunDir; print(RunDir().path, flush=True); input()"
    command = [sys.executable, "-c", make]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living,
    ):
        assert killed.stdout and living.stdout and living.stdin
        left, used = (Path(stdout.readline().decode().strip()) for stdout in (killed.stdout, living.stdout))
        (left / "metrics").mkdir()
        (left / "metrics" / "figures").write_text("1")
        killed.kill()
        killed.wait()
        (tmp_path / "lightbox-of-somebody").mkdir()
        ours = RunDir()
        assert sorted(tmp_path.iterdir()) == sorted([used, ours.path, tmp_path / "lightbox-of-somebody"])
        ours.remove()
        living.stdin.write(b"\n")


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lightbox-planted").mkdir()
    (tmp_path / "lightbox-planted" / "lock").symlink_to("/etc/hostname")
    RunDir().remove()
    assert (tmp_path / "lightbox-planted").exists()
