"""What nginx bounds before a worker sees it: all bodies together, and what one address may do."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import psutil
import pytest
import requests

from support.fakes import png
from support.models import copy_golden
from support.patience import PATIENCE, poll
from support.stack import Stack, running

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
ROOM_MB = 16
PATHS = ["/invocations", "/endpoints/any/invocations"]


@pytest.fixture(scope="module")
def bounded_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("bounds")
    copy_golden("image_mean", folder / "models" / "image_mean")
    environ = {
        "LIGHTBOX_MAX_BODIES_MB": str(ROOM_MB),
        "LIGHTBOX_MAX_BODY_MB": "8",
        "LIGHTBOX_MAX_CONNECTIONS_PER_ADDRESS": "12",
        "SAGEMAKER_TFS_NGINX_LOGLEVEL": "warn",
    }
    with running(folder / "models", folder / "run", **environ) as bounded_stack:
        yield bounded_stack


def begun(bounded_stack: Stack, length: int | None, path: str = "/invocations") -> socket.socket:
    """Return a connection on which a request has its headers, and of its body a byte."""
    connection = socket.create_connection(("127.0.0.1", bounded_stack.port), timeout=PATIENCE)
    framing = (
        f"Content-Length: {length}\r\n\r\nx" if length is not None else "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    )
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\n{framing}".encode())
    return connection


def refusal(connection: socket.socket) -> tuple[int, dict[str, str]]:
    """Return the status and the body's code of an answer, and close the connection."""
    with connection:
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.rstrip().endswith(b"}"):
            piece = connection.recv(1 << 16)
            assert piece, answer
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Retry-After: 1" in head
    told = json.loads(body)
    return int(head.split()[1]), json.loads(told["OriginalMessage"]) if "OriginalMessage" in told else told


def is_held(connection: socket.socket) -> bool:
    """Tell whether nginx waits for more of a request: after a moment it has answered nothing."""
    connection.settimeout(0.5)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True


def until_answered(bounded_stack: Stack, length: int) -> int:
    """Return the status of a request with a body of ``length`` zeros, tried again while there is no room."""
    status = 503
    for _ in poll():
        if (status := bounded_stack.invoke(bytes(length), Content_Type="image/png").status_code) != 503:
            break
    return status


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["declared", "chunked"])
def test_large_bodies_are_bounded_together_before_they_arrive(bounded_stack: Stack, path: str, kind: str) -> None:
    size = 8 << 20
    with ExitStack() as open_:
        for _ in range(2):
            held = open_.enter_context(begun(bounded_stack, size if kind == "declared" else None, path))
            assert is_held(held)
        status, told = refusal(begun(bounded_stack, 1_000_000, path))
        assert (status, told["code"]) == (424 if "endpoints" in path else 503, "unavailable")
        assert f"{ROOM_MB} MiB (LIGHTBOX_MAX_BODIES_MB)" in told["error"]
        assert bounded_stack.invoke(IMAGE, Content_Type="image/png").status_code == 200
    assert until_answered(bounded_stack, 8_000_000) == 400


@pytest.mark.parametrize("path", PATHS)
def test_chunked_bodies_that_are_small_need_no_room_for_the_largest(bounded_stack: Stack, path: str) -> None:
    def send(body: bytes) -> requests.Response:
        headers = {"Content-Type": "image/png"}
        return requests.post(
            bounded_stack.url + path, data=iter([body[:9], body[9:]]), headers=headers, timeout=PATIENCE
        )

    status = 424 if "endpoints" in path else 503
    with ExitStack() as open_:
        assert is_held(open_.enter_context(begun(bounded_stack, None, path)))
        assert is_held(open_.enter_context(begun(bounded_stack, 2_000_000, path)))
        for _ in range(6):  # more than the room has for those that are not answered
            assert send(IMAGE).status_code == 200
        refused = send(bytes(3 << 20))
        assert refused.status_code == status
        assert refused.headers["Retry-After"] == "1"
        assert "LIGHTBOX_MAX_BODIES_MB" in refused.text
    assert any("LIGHTBOX_MAX_BODIES_MB" not in send(bytes(3 << 20)).text for _ in poll())


def test_what_was_answered_gives_its_room_back(bounded_stack: Stack) -> None:
    # Each is answered, refused, or given up; all together would take many times the room.
    for number in range(12):
        assert until_answered(bounded_stack, 7_000_000) == 400
        assert until_answered(bounded_stack, 9_000_000) == 413
        begun(bounded_stack, 3_000_000).close()
        assert until_answered(bounded_stack, 1_000_000 + number) == 400


def test_a_killed_nginx_worker_keeps_no_room_and_no_count(bounded_stack: Stack) -> None:
    with ExitStack() as open_:
        for _ in range(2):
            assert is_held(open_.enter_context(begun(bounded_stack, 8 << 20)))
        for _ in range(8):
            assert is_held(open_.enter_context(begun(bounded_stack, 1000)))
        (master,) = bounded_stack.processes("nginx: master")
        for worker in master.children():
            worker.send_signal(9)
            psutil.wait_procs([worker], timeout=PATIENCE)
    assert until_answered(bounded_stack, 8_000_000) == 400
    for _ in poll():  # the old counts are gone when the new workers are there
        with ExitStack() as open_:
            if all(is_held(open_.enter_context(begun(bounded_stack, 1000))) for _ in range(12)):
                return
    raise AssertionError(bounded_stack.log)


@pytest.mark.parametrize("path", PATHS)
def test_connections_of_an_address_are_bounded(bounded_stack: Stack, path: str) -> None:
    with ExitStack() as open_:
        for _ in range(12):
            assert is_held(open_.enter_context(begun(bounded_stack, 1000)))
        status, told = refusal(begun(bounded_stack, 1000, path))
        assert (status, told["code"]) == (424 if "endpoints" in path else 429, "too_many_requests")
        assert "LIGHTBOX_MAX_CONNECTIONS_PER_ADDRESS" in told["error"]
        assert bounded_stack.ping() == 200
    assert any(bounded_stack.invoke(IMAGE, Content_Type="image/png").status_code == 200 for _ in poll())
