"""nginx's limits without a sidecar: a request that passes them returns 503."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightbox.nginx.configuration import render
from lightbox.nginx.installation import find_nginx
from lightbox.serving.settings_loading import load_settings
from support.patience import PATIENCE, poll
from support.stack import free_port


@contextmanager
def nginx(folder: Path) -> Iterator[int]:
    """Run nginx; yield its port."""
    port = free_port()
    settings = load_settings({"SAGEMAKER_BIND_TO_PORT": str(port)})
    addresses = {"SIDECAR": f"unix:{folder}/nobody", "HEALTH": f"unix:{folder}/nobody"}
    (folder / "nginx.conf").write_text(render(settings, folder, addresses, 100 << 20))
    process = subprocess.Popen([find_nginx(), "-e", "stderr", "-c", str(folder / "nginx.conf")])
    try:
        for _ in poll():
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                continue
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def statuses(port: int, path: str, times: int) -> list[int]:
    """Send pipelined requests on one connection; return their statuses."""
    one = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    last = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(one * (times - 1) + last)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


def test_the_requests_of_an_address_are_not_bounded(tmp_path: Path) -> None:
    with nginx(tmp_path) as port:
        assert statuses(port, "/invocations", 500) == [503] * 500


def test_a_large_body_is_not_taken_where_nobody_counts(tmp_path: Path) -> None:
    with nginx(tmp_path) as port, socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
