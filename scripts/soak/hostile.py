"""Clients that no server wants: bad images, bodies cut short, slow senders and readers, hang-ups, too much of all."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from soak import infer
from soak.exchange import Caller, Fate, Outcome, Request
from soak.good import ATTRIBUTES
from soak.infer import InferCaller
from soak.ledger import Ledger

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "invalid"
BAD = (400, 413, 414, 415, 431)
BODY_LIMIT_MB = 8
"""The served stack's LIGHTBOX_MAX_BODY_MB, so that a body beyond it need not be large."""
PATIENCE = 10.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Hostile:
    """One hostile client; each call of ``act`` does one of its tricks against the port."""

    def __init__(self, port: int, front: str, ledger: Ledger, image: bytes, seed: int) -> None:
        self._port = port
        self._front = front
        self._ledger = ledger
        self._image = image
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._files = sorted(path for path in CORPUS.iterdir() if path.suffix != ".json")
        self._tricks: list[Callable[[], None]] = [
            self._bad_image,
            self._bad_image,
            self._noise,
            self._broken_json,
            self._too_large,
            self._large_headers,
            self._no_http,
            self._body_cut_short,
            self._hang_up,
            self._hang_up,
            self._slow_headers,
            self._slow_body,
            self._slow_reader,
            self._bad_call,
            self._abandoned_call,
        ]

    def act(self) -> None:
        """Do one trick, drawn at random."""
        self._random.choice(self._tricks)()

    def close(self) -> None:
        """Nothing is open: each trick has connections of its own."""

    def _bad_image(self) -> None:
        self._ask("bad image", self._random.choice(self._files).read_bytes(), "application/x-image", BAD)

    def _noise(self) -> None:
        """A good image with some bytes changed: a 200 is right too."""
        body = bytearray(self._image)
        for _ in range(self._random.randrange(1, 30)):
            body[self._random.randrange(len(body))] = self._random.randrange(256)
        self._ask("damaged image", bytes(body), "image/png", (200, *BAD))

    def _broken_json(self) -> None:
        body = self._random.choice(
            [b"[" * 100_000, b'{"instances": [1, ', b"\xff\xfe\x00", b"1e400", b'{"inputs": {}}']
        )
        self._ask("broken JSON", body, "application/json", BAD)

    def _too_large(self) -> None:
        self._ask("oversized body", bytes((BODY_LIMIT_MB << 20) + 1), "application/x-image", BAD, early=True)

    def _large_headers(self) -> None:
        request = Request("oversized headers", "/invocations", {"X-Large": "x" * 300_000}, b"")
        self._note_early(Caller(self._port, keep=False).send(request), BAD)

    def _ask(self, name: str, body: bytes, content_type: str, expected: tuple[int, ...], early: bool = False) -> None:
        headers = {"Content-Type": content_type, ATTRIBUTES: "tfs-model-name=digits"}
        outcome = Caller(self._port, keep=False).send(Request(name, "/invocations", headers, body))
        if early:
            self._note_early(outcome, expected)
        else:
            self._ledger.hostile(outcome, expected)

    def _note_early(self, outcome: Outcome, expected: tuple[int, ...]) -> None:
        """A refusal may overtake what is still being sent; the client's system then throws it away."""
        if outcome.fate is Fate.UNSENT or (outcome.fate is Fate.CUT and not outcome.status):
            self._ledger.left(outcome.name)
        else:
            self._ledger.hostile(outcome, expected)

    def _no_http(self) -> None:
        lines = (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /invocations HTTP/1.1\r\nContent-Length: -1\r\n\r\n")
        self._send_and_leave("no HTTP", self._random.choice(lines), read=True)

    def _bad_call(self) -> None:
        """A gRPC message that is none, or one with what is no image."""
        image = self._random.choice(self._files).read_bytes()
        request = self._random.choice([infer.damaged(image), Request("no message, gRPC", infer.PATH, body=image)])
        caller = InferCaller(self._front, keep=False)
        self._ledger.hostile(caller.send(request), BAD)

    def _abandoned_call(self) -> None:
        """A gRPC call that is given up while it runs."""
        caller = InferCaller(self._front, keep=False)
        caller.send(infer.damaged(self._image), seconds=self._random.uniform(0, 0.01))
        self._ledger.left("abandoned call, gRPC")

    def _body_cut_short(self) -> None:
        self._send_and_leave("body cut short", self._head(len(self._image)) + self._image[: len(self._image) // 2])

    def _hang_up(self) -> None:
        """The whole request, then a reset before the answer."""
        self._send_and_leave("hang-up", self._head(len(self._image)) + self._image)

    def _send_and_leave(self, name: str, data: bytes, read: bool = False) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self._port), PATIENCE) as connection:
                connection.sendall(data)
                if read:
                    connection.recv(1 << 16)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        except OSError:
            pass  # it would have left anyway
        self._ledger.left(name)

    def _slow_headers(self) -> None:
        self._drip("slow headers", self._head(len(self._image)), 0.2)

    def _slow_body(self) -> None:
        head = self._head(len(self._image))
        self._drip("slow body", self._image, 0.1, before=head)

    def _drip(self, name: str, data: bytes, pause: float, before: bytes = b"") -> None:
        """Send a byte at a time for some seconds, and leave."""
        end = time.monotonic() + self._random.uniform(1, 4)
        try:
            with socket.create_connection(("127.0.0.1", self._port), PATIENCE) as connection:
                connection.sendall(before)
                for byte in data:
                    if time.monotonic() > end:
                        break
                    connection.sendall(bytes([byte]))
                    time.sleep(pause)
        except OSError:
            pass
        self._ledger.left(name)

    def _slow_reader(self) -> None:
        """Ask for an answer and take it a few bytes at a time, until it is whole or patience ends."""
        try:
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                connection.settimeout(PATIENCE)
                connection.connect(("127.0.0.1", self._port))
                connection.sendall(self._head(len(self._image)) + self._image)
                for _ in range(40):
                    if not connection.recv(16):
                        break
                    time.sleep(0.05)
        except OSError:
            pass
        self._ledger.left("slow reader")

    def _head(self, length: int) -> bytes:
        return (
            f"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
            f"{ATTRIBUTES}: tfs-model-name=digits\r\nContent-Length: {length}\r\n\r\n"
        ).encode()
