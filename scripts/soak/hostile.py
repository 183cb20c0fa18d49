"""Clients that no server wants: bad images, bodies cut short, slow senders and readers, hang-ups, too much of all."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from soak.client import INFER, Client, Fate, Request
from soak.good import ATTRIBUTES, IMAGE, JSON, image_call
from soak.ledger import Ledger
from soak.run import Actor

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "invalid"
BAD = (400, 413, 414, 415, 431)
BODY_LIMIT_MB = 8
"""The served stack's LIGHTBOX_MAX_BODY_MB, so that a body beyond it need not be large."""
PATIENCE = 30.0
NO_HTTP = (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /invocations HTTP/1.1\r\nContent-Length: -1\r\n\r\n")
BROKEN_JSON = (b"[" * 100_000, b'{"instances": [1, ', b"\xff\xfe\x00", b"1e400", b'{"inputs": {}}')
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Hostile(Actor):
    """One hostile client; each call of ``act`` does one of its tricks, over connections of its own."""

    def __init__(self, image: bytes, client: Client, ledger: Ledger, seed: int) -> None:
        super().__init__(client, ledger, seed)
        self._image = image
        self._files = sorted(path for path in CORPUS.iterdir() if path.suffix != ".json")
        head = (
            f"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
            f"{ATTRIBUTES}: tfs-model-name=digits\r\nContent-Length: {len(image)}\r\n\r\n"
        ).encode()
        hang_up = partial(self._raw, "hang-up", head + image, reset=True)
        self._tricks: list[Callable[[], None]] = [
            *(self._bad_image, self._bad_image, self._noise, self._broken_json, self._too_large, self._large_headers),
            *(self._bad_call, self._abandoned_call, self._no_http, hang_up, hang_up),
            partial(self._raw, "body cut short", head + image[: len(image) // 2], reset=True),
            partial(self._raw, "slow headers", b"", single(head), 0.2),
            partial(self._raw, "slow body", head, single(image), 0.1),
            partial(self._raw, "slow reader", head + image, [16] * 40, 0.05),
        ]

    def act(self) -> None:
        """Do one trick, drawn at random."""
        self.random.choice(self._tricks)()

    def _some_file(self) -> bytes:
        return self.random.choice(self._files).read_bytes()

    def _bad_image(self) -> None:
        self._ask("bad image", self._some_file(), IMAGE)

    def _noise(self) -> None:
        """A good image with some bytes changed: a 200 is right too."""
        body = bytearray(self._image)
        for _ in range(self.random.randrange(1, 30)):
            body[self.random.randrange(len(body))] = self.random.randrange(256)
        self._ask("damaged image", bytes(body), "image/png", 200)

    def _broken_json(self) -> None:
        self._ask("broken JSON", self.random.choice(BROKEN_JSON), JSON)

    def _too_large(self) -> None:
        self._ask("oversized body", bytes((BODY_LIMIT_MB << 20) + 1), IMAGE)

    def _large_headers(self) -> None:
        self._note(Request("oversized headers", "/invocations", {"X-Large": "x" * 300_000}))

    def _bad_call(self) -> None:
        """A gRPC message that is none, or one with what is no image."""
        image = self._some_file()
        none = Request("no message, gRPC", INFER, body=image)
        self._note(self.random.choice([image_call("bad image, KServe gRPC", "digits", image), none]))

    def _abandoned_call(self) -> None:
        """A gRPC call that is given up while it runs."""
        self.client.send(image_call("", "digits", self._image), seconds=self.random.uniform(0, 0.01))
        self.ledger.left("abandoned call, gRPC")

    def _ask(self, name: str, body: bytes, content_type: str, *more: int) -> None:
        headers = {"Content-Type": content_type, ATTRIBUTES: "tfs-model-name=digits"}
        self._note(Request(name, "/invocations", headers, body), *more)

    def _note(self, request: Request, *more: int) -> None:
        """Send a request and note its outcome.

        A refusal may overtake what is still being sent if it is large; the client's system then throws it away.
        """
        outcome = self.client.send(request)
        if request.name.startswith("oversized") and outcome.fate in (Fate.UNSENT, Fate.CUT):
            self.ledger.left(request.name)
        else:
            self.ledger.hostile(outcome, (*more, *BAD))

    def _no_http(self) -> None:
        self._raw("no HTTP", self.random.choice(NO_HTTP), [16], reset=True)

    def _raw(
        self, name: str, begin: bytes, rest: Iterable[bytes | int] = (), pause: float = 0.0, reset: bool = False
    ) -> None:
        end = time.monotonic() + self.random.uniform(1, 4)

        def goes_on() -> bool:
            time.sleep(pause)
            return time.monotonic() < end

        speak(self.client.port, begin, rest, goes_on, reset)
        self.ledger.left(name)


def single(data: bytes) -> list[bytes]:
    """Return the bytes of a text one by one."""
    return [data[at : at + 1] for at in range(len(data))]


def speak(
    port: int, begin: bytes, rest: Iterable[bytes | int], goes_on: Callable[[], bool], reset: bool = False
) -> None:
    """Send ``begin``; then, as long as it ``goes_on``, send each text of the rest, or read so many bytes; and leave.

    With ``reset`` it leaves at once, before the answer. A server that closes the connection ends it: nobody cares.
    """
    with suppress(OSError), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(begin)
        for step in rest:
            if not goes_on():
                break
            if isinstance(step, bytes):
                connection.sendall(step)
            elif not connection.recv(step):
                break
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
