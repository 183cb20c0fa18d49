"""A full TMPDIR: requests that need space there get 507, and the log has the folder; all others are answered."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import requests

from support import stack as support_stack
from support.fakes import png
from support.models import copy_golden
from support.patience import PATIENCE, poll
from support.stack import SERVE, Stack

pytestmark = pytest.mark.extended

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
SIZE_MB = 24
BODY_BYTES = 20_000_000
LEFT = 3_000_000
PATHS = ["/invocations", "/endpoints/any/invocations"]
WRAPPER = """#!/bin/sh
exec unshare {user} --mount sh -ec 'mount -t tmpfs -o size={size}m none "$TMPDIR"; exec {serve} "$1"' sh "$1"
"""


class SmallStack(Stack):
    """Its TMPDIR is a file system of SIZE_MB, mounted for this process and its children only."""

    @property
    def folder(self) -> Path:
        """TMPDIR's path for the tests."""
        return Path(f"/proc/{self.process.pid}/root{self.tmp}")

    def fill(self, leave: int) -> None:
        """Wait until nginx has removed earlier bodies. Then write until only ``leave`` bytes are free."""
        assert self.is_without_bodies()
        with (self.folder / "filler").open("wb") as file:
            file.write(bytes(shutil.disk_usage(self.folder).free - leave))

    def is_without_bodies(self) -> bool:
        """Wait until nginx stores no body: it removes each shortly after its answer."""
        return any(not list(self.folder.glob("lightbox-*/client_body/*")) for _ in poll())

    def workers(self) -> set[int]:
        """Return the process ids of nginx and gunicorn."""
        return {process.pid for part in ("nginx", "gunicorn") for process in self.processes(part)}


@pytest.fixture(scope="module")
def small_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallStack]:
    folder = tmp_path_factory.mktemp("full")
    copy_golden("image_mean", folder / "models" / "image_mean")
    wrapper = folder / "serve-in-small-tmpdir"
    user = "" if os.geteuid() == 0 else "--user --map-root-user"
    wrapper.write_text(WRAPPER.format(user=user, size=SIZE_MB, serve=SERVE))
    wrapper.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support_stack, "SERVE", wrapper)
        stack = SmallStack(folder / "models", folder / "run", {"SAGEMAKER_GUNICORN_WORKERS": "1"})
    with stack:
        stack.wait_ready()
        yield stack


@pytest.fixture
def full_stack(small_stack: SmallStack) -> Iterator[SmallStack]:
    """Leave only LEFT bytes."""
    small_stack.fill(LEFT)
    yield small_stack
    (small_stack.folder / "filler").unlink()


def post(stack: Stack, path: str, body: bytes | Iterable[bytes]) -> requests.Response:
    return requests.post(stack.url + path, data=body, headers={"Content-Type": "image/png"}, timeout=PATIENCE)


def check_refusal(stack: SmallStack, path: str, answer: requests.Response, needed: str) -> None:
    """Check a refusal, and that the log has the folder and its free bytes."""
    reply = answer.json()
    if path == PATHS[1]:
        assert (answer.status_code, reply["OriginalStatusCode"]) == (424, 507)
        assert answer.headers["x-amzn-ErrorType"] == "ModelError"
        assert reply["Message"].startswith("Received status 507 from the model container: the server's temporary")
        reply = json.loads(reply["OriginalMessage"])
    else:
        assert answer.status_code == 507
    assert (reply["code"], reply["request_id"]) == ("no_room", answer.headers["X-Amzn-RequestId"])
    assert re.fullmatch(f"the server's temporary storage has no room for {needed}", reply["error"]), reply
    stack.wait_until(lambda: f"TMPDIR: {stack.tmp} has " in stack.log)


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_does_not_fit_is_refused_before_it_is_read(full_stack: SmallStack, path: str) -> None:
    with socket.create_connection(("127.0.0.1", full_stack.port), timeout=PATIENCE) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: image/png\r\nContent-Length: {BODY_BYTES}\r\n\r\nx"
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 424" if path == PATHS[1] else b"HTTP/1.1 507")
    check_refusal(
        full_stack, path, post(full_stack, path, bytes(BODY_BYTES)), f"the request body of {BODY_BYTES:,} bytes"
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_stops_fitting_while_it_arrives(full_stack: SmallStack, path: str) -> None:
    """The length is unknown, so the check can only happen while nginx writes the bytes."""
    before = full_stack.workers()
    pieces = (bytes(1 << 20) for _ in range(BODY_BYTES >> 20))
    check_refusal(full_stack, path, post(full_stack, path, pieces), "a request body that declares no length")
    full_stack.wait_until(lambda: re.search(r'client_body/\d+" (has written only|failed)', full_stack.log) is not None)
    assert full_stack.workers() == before


def test_what_fits_is_answered_meanwhile_and_all_afterwards(small_stack: SmallStack) -> None:
    small_stack.fill(0)
    try:
        before = small_stack.workers()
        assert post(small_stack, "/invocations", IMAGE).status_code == 200
        assert post(small_stack, "/endpoints/any/invocations", IMAGE).status_code == 200
        assert post(small_stack, "/invocations", IMAGE + bytes(1_500_000)).status_code == 200
        assert post(small_stack, "/invocations", bytes(2_500_000)).status_code == 507
        assert post(small_stack, "/invocations", b"no image").status_code == 400
        assert requests.get(f"{small_stack.url}/v2/models/image_mean", timeout=PATIENCE).status_code == 200
        assert small_stack.ping() == 200
    finally:
        (small_stack.folder / "filler").unlink()
    assert post(small_stack, "/invocations", IMAGE + bytes(2_500_000)).status_code == 200
    assert small_stack.workers() == before
    assert small_stack.is_without_bodies()
