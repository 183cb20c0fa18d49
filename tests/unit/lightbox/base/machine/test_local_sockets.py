"""A socket that one process opens and another one listens at."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from lightbox.base.machine.local_sockets import INHERITED, bind, listen


def test_connections_are_refused_until_the_heir_listens_and_wait_for_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with bind(f"unix:{path}") as kept, socket.socket(socket.AF_UNIX) as early, socket.socket(socket.AF_UNIX) as late:
        with pytest.raises(ConnectionRefusedError):
            early.connect(str(path))
        listen(f"{INHERITED}{os.dup(kept.fileno())}").close()  # the first heir
        late.connect(str(path))
        with listen(f"{INHERITED}{os.dup(kept.fileno())}") as heir, closing(heir.accept()[0]) as accepted:
            late.sendall(b"waited")
            assert (accepted.recv(6), heir.getblocking()) == (b"waited", False)
