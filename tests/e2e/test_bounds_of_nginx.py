"""Limits in nginx before a worker receives a request: the sum of all bodies, and one address's requests."""

from __future__ import annotations

import json
import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import psutil
import pytest
import requests

from faults.of_processes import first_free_descriptor
from support.fakes import png
from support.models import copy_golden
from support.patience import PATIENCE, poll
from support.stack import Stack, running

pytestmark = pytest.mark.extended

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
ROOM_MB = 16
PATHS = ["/invocations", "/endpoints/any/invocations"]


@pytest.fixture(scope="module")
def bounded_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("bounds")
    copy_golden("image_mean", folder / "models" / "image_mean")
    environ = {
        "LIGHTBOX_REQUEST_MEMORY_MB": str(ROOM_MB),
        "SAGEMAKER_GUNICORN_WORKERS": "1",
        "LIGHTBOX_MAX_BODY_MB": "8",
        "SAGEMAKER_TFS_NGINX_LOGLEVEL": "notice",
    }
    with running(folder / "models", folder / "run", **environ) as bounded_stack:
        yield bounded_stack


def open_request(
    bounded_stack: Stack, length: int | None, path: str = PATHS[0], expects: bool = False
) -> socket.socket:
    """Return a connection with a request's headers and one byte of its body sent."""
    connection = socket.create_connection(("127.0.0.1", bounded_stack.port), timeout=PATIENCE)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\n"
    head += "Expect: 100-continue\r\n" if expects else ""
    head += "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    connection.sendall(f"{head}\r\n\r\n".encode() + one_more(length))
    return connection


def one_more(length: int | None) -> bytes:
    """Return one more byte of a body with a declared length, or of a chunked body."""
    return b"1\r\nx\r\n" if length is None else b"x"


def refusal(connection: socket.socket) -> tuple[int, dict[str, str]]:
    """Return the status and the body's code of a response. Close the connection."""
    with connection:
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.rstrip().endswith(b"}"):
            piece = connection.recv(1 << 16)
            assert piece, answer
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Retry-After: 1" in head
    reply = json.loads(body)
    return int(head.split()[1]), json.loads(reply["OriginalMessage"]) if "OriginalMessage" in reply else reply


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""So nginx begins when it has decided about a request; where it refuses it, that follows at once."""
Wanted = tuple[int | None, str]
"""The length of a body, and the path."""


@contextmanager
def holding(bounded_stack: Stack, *wanted: Wanted) -> Iterator[None]:
    """Hold requests in nginx, which waits for their bodies. Send a byte each second: nginx gives up after ten.

    nginx may refuse one until it has finished the requests of earlier tests. A new request replaces it then.
    """
    held: dict[socket.socket, Wanted] = {}
    ended = threading.Event()

    def hold(one: Wanted) -> None:
        connection = open_.enter_context(open_request(bounded_stack, *one, expects=True))
        assert connection.recv(len(CONTINUE), socket.MSG_WAITALL) == CONTINUE
        held[connection] = one

    def all_are_held() -> bool:
        bounded_stack.wait_for_ping(200)  # nginx sends its pending responses first
        refused, _, _ = select.select(list(held), [], [], 0)
        for connection in refused:
            connection.close()
            hold(held.pop(connection))
        return not refused

    def feed() -> None:
        while not ended.wait(1):
            for connection, (length, _) in list(held.items()):
                with suppress(OSError):  # its nginx process was killed
                    connection.sendall(one_more(length))

    feeding = threading.Thread(target=feed)
    with ExitStack() as open_:
        feeding.start()
        open_.callback(feeding.join)
        open_.callback(ended.set)
        for one in wanted:
            hold(one)
        assert any(all_are_held() for _ in poll()), bounded_stack.log
        yield


def until_answered(bounded_stack: Stack, length: int) -> int:
    """Send a body of ``length`` zeros, and try again while there is no room. Return the status."""
    status = 503
    for _ in poll():
        if (status := bounded_stack.invoke(bytes(length), Content_Type="image/png").status_code) != 503:
            break
    return status


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["declared", "chunked"])
def test_large_bodies_are_bounded_together_before_they_arrive(bounded_stack: Stack, path: str, kind: str) -> None:
    size = 8 << 20
    with holding(bounded_stack, *[(size if kind == "declared" else None, path)] * 2):
        status, reply = refusal(open_request(bounded_stack, 1_000_000, path))
        assert (status, reply["code"]) == (424 if "endpoints" in path else 503, "queue_full")
        assert reply["error"].endswith("have all the room (LIGHTBOX_REQUEST_MEMORY_MB)")
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
    with holding(bounded_stack, (None, path), (2_000_000, path)):
        for _ in range(6):  # more than the room for unanswered requests; an answer frees its room a little later
            assert any(send(IMAGE).status_code == 200 for _ in poll())
        refused = send(bytes(3 << 20))
        assert refused.status_code == status
        assert refused.headers["Retry-After"] == "1"
        assert "LIGHTBOX_REQUEST_MEMORY_MB" in refused.text
    assert any("LIGHTBOX_REQUEST_MEMORY_MB" not in send(bytes(3 << 20)).text for _ in poll())


def test_what_was_answered_gives_its_room_back(bounded_stack: Stack) -> None:
    # Each is answered, refused or aborted. Together they would need many times the room.
    for number in range(12):
        assert until_answered(bounded_stack, 7_000_000) == 400
        assert until_answered(bounded_stack, 9_000_000) == 413
        open_request(bounded_stack, 3_000_000).close()
        assert until_answered(bounded_stack, 1_000_000 + number) == 400


RENEWAL = ": reconfiguring"
"""The log line of nginx when it replaces its workers, as it does where one was lost."""


def is_renewed(bounded_stack: Stack, master: psutil.Process) -> bool:
    """Return whether all workers that accept connections have started since the last renewal."""
    started = re.findall(r"start worker process (\d+)", bounded_stack.log.rpartition(RENEWAL)[2])
    serving = []
    for worker in master.children():
        with suppress(psutil.NoSuchProcess):
            if "shutting down" not in " ".join(worker.cmdline()):
                serving.append(str(worker.pid))
    return bool(serving) and set(serving) <= set(started)


def test_a_killed_nginx_worker_keeps_no_room_and_no_count(bounded_stack: Stack) -> None:
    with holding(bounded_stack, *[(8 << 20, PATHS[0])] * 2, *[(1000, PATHS[0])] * 8):
        (master,) = bounded_stack.processes("nginx: master")
        for worker in master.children():
            renewals = bounded_stack.log.count(RENEWAL)
            try:
                worker.kill()
            except psutil.NoSuchProcess:  # the renewal after the first death has ended it
                continue
            assert any(
                bounded_stack.log.count(RENEWAL) > renewals and is_renewed(bounded_stack, master) for _ in poll()
            )
    assert until_answered(bounded_stack, 8_000_000) == 400
    with holding(bounded_stack, *[(1000, PATHS[0])] * 12):
        pass


def test_without_descriptors_callers_are_asked_to_come_again(bounded_stack: Stack) -> None:
    """nginx accepted the connection, and has no descriptor for one to the supervisor."""
    workers = [psutil.Process(process.pid) for process in bounded_stack.processes("nginx: worker process")]
    before = [worker.rlimit(psutil.RLIMIT_NOFILE) for worker in workers]
    with requests.Session() as session:

        def ping_without_descriptors() -> requests.Response:
            assert session.get(f"{bounded_stack.url}/ping", timeout=PATIENCE).status_code == 200
            for worker, (_, most) in zip(workers, before, strict=True):
                worker.rlimit(psutil.RLIMIT_NOFILE, (first_free_descriptor(worker), most))
            try:
                return session.get(f"{bounded_stack.url}/ping", timeout=PATIENCE)
            finally:
                for worker, limit in zip(workers, before, strict=True):
                    worker.rlimit(psutil.RLIMIT_NOFILE, limit)

        # An earlier connection may end after its descriptor is counted.
        answer = next(answer for _ in poll() if (answer := ping_without_descriptors()).status_code != 200)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1"), answer.text
        assert answer.json()["request_id"] == answer.headers["X-Amzn-RequestId"]
