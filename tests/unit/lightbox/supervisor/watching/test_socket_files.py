"""A removed file of a socket is restored, unless its process makes another one."""

from __future__ import annotations

import socket
from pathlib import Path

from lightbox.supervisor.watching.socket_files import SocketFiles


def listening(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(str(path)) == 0


def test_a_removed_file_is_restored_at_the_second_look(tmp_path: Path) -> None:
    path, files = tmp_path / "one.sock", SocketFiles(tmp_path)
    with listening(path):
        files.look()
        for _ in range(2):
            path.unlink()
            files.look()
            assert not path.exists()
            files.look()
            assert connects(path)


def test_a_process_that_begins_anew_has_its_own_file(tmp_path: Path) -> None:
    path, files = tmp_path / "one.sock", SocketFiles(tmp_path)
    listening(path).close()
    files.look()
    path.unlink()
    files.look()
    with listening(path):
        files.look()
        path.unlink()
        files.look()
        files.look()
        assert connects(path)
