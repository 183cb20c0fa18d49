"""The traffic of a stack with fixed models: all interfaces, sessions, and hostile clients.

Hostile clients send bad images, truncated bodies and too much data; they send and read slowly, and hang up.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from benchmark.clients.http import HttpClient
from benchmark.servers import REPOSITORY, Running, Stack
from faults.callers import Act, Caller, any_of, ping
from faults.client import INFER, Fate, Request
from faults.good import ATTRIBUTES, DIGIT, IMAGE, JSON, image_call, invocation, learn, requests
from faults.history import History
from faults.stack import VARIABLE, Settings, Traffic

GOOD_CLIENTS, HOSTILE_CLIENTS, SESSION_CLIENTS = 6, 4, 2
SESSION = "X-Amzn-SageMaker-Session-Id"
ASKS = 10
"""Average number of a session's requests before it is closed."""
CORPUS = REPOSITORY / "tests" / "corpus" / "invalid"
BAD = (400, 413, 414, 415, 431)
BODY_LIMIT_MB = 8
"""The served stack's LIGHTBOX_MAX_BODY_MB, so that a body beyond it need not be large."""
PATIENCE = 30.0
NO_HTTP = (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /invocations HTTP/1.1\r\nContent-Length: -1\r\n\r\n")
BROKEN_JSON = (b"[" * 100_000, b'{"instances": [1, ', b"\xff\xfe\x00", b"1e400", b'{"inputs": {}}')
LARGE, CANCELLED, DAMAGED = ("oversized body", "oversized headers"), "cancelled call", "damaged image"
MAY_SUCCEED = {CANCELLED: (200, 504, *BAD), DAMAGED: (200, *BAD)}
LEFT = dict.fromkeys(LARGE, (Fate.UNSENT, Fate.CUT)) | {CANCELLED: (Fate.NOT_CONNECTED, Fate.CUT, Fate.SILENT)}
"""A large body's refusal can arrive during the upload; the client's kernel then discards it."""


def fixed_models(name: str, models: Path, settings: Settings) -> Traffic:
    """Return the traffic to fixed models."""
    transports = ("local", "grpc", "rest") if dict(settings)[VARIABLE] == "embedded" else ("grpc", "rest")
    settings = (
        *settings,
        ("LIGHTBOX_TRANSPORT", ",".join(transports)),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "mobilenet_v2"),
        ("LIGHTBOX_MAX_BODY_MB", str(BODY_LIMIT_MB)),
        ("LIGHTBOX_SESSIONS", "true"),
        ("LIGHTBOX_STREAMS", "true"),
    )
    return Traffic(Stack(name, models, settings, front=True), partial(_acts, transports))


def _acts(transports: Sequence[str], server: Running, history: History) -> list[Act]:
    known = learn(server.address, requests(transports), history)
    digit = next(request for request in known if request.name == DIGIT)
    return [
        ping,
        *[partial(any_of, known)] * GOOD_CLIENTS,
        *[partial(in_session, digit)] * SESSION_CLIENTS,
        *[partial(hostile, digit.body)] * HOSTILE_CLIENTS,
    ]


def in_session(digit: Request, caller: Caller) -> None:
    """Open a session, send an image, send requests about it, and close the session.

    Sessions survive killed workers: every request is answered. After an interrupted request the session goes on, unless
    its state is unknown: then the client starts another one.
    """
    outcome, is_open = caller.send(_about(digit, "opened", "NEW_SESSION", asks="NEW_SESSION"))
    if not is_open:
        return
    session = str(json.loads(outcome.body)["session"])
    while not caller.send(_about(digit, "image", session, digit.body))[1]:
        pass
    closed: bool | None = False
    while closed is False:
        if caller.random.random() < 1 / ASKS:
            closed = caller.change(_about(digit, "closed", session, asks="CLOSE"))
        else:
            caller.send(_about(digit, "asked", session))


def _about(digit: Request, name: str, session: str, body: bytes = b"", asks: str = "") -> Request:
    request = replace(digit, name=f"session, {name}", headers={**digit.headers, SESSION: session}, body=body)
    if not asks:
        return request
    headers, body = {**request.headers, "Content-Type": JSON}, json.dumps({"requestType": asks}).encode()
    return Request(request.name, request.path, headers, body)


def hostile(image: bytes, caller: Caller) -> None:
    """Run a random attack: send a request that must be refused, or disconnect before the response."""
    caller.client.keep = False
    caller.random.choice((_ask, _leave))(image, caller)
    caller.think()


def _ask(image: bytes, caller: Caller) -> None:
    """Send a request that must be refused, or a gRPC call that is cancelled."""
    some_file = caller.random.choice(sorted(path for path in CORPUS.iterdir() if path.suffix != ".json")).read_bytes()
    damaged = bytearray(image)
    for _ in range(caller.random.randrange(1, 30)):
        damaged[caller.random.randrange(len(damaged))] = caller.random.randrange(256)
    request = caller.random.choice(
        [
            *[invocation("bad image", "digits", some_file, IMAGE)] * 2,
            invocation(DAMAGED, "digits", bytes(damaged), "image/png"),
            invocation("broken JSON", "digits", caller.random.choice(BROKEN_JSON)),
            invocation(LARGE[0], "digits", bytes((BODY_LIMIT_MB << 20) + 1), IMAGE),
            Request(LARGE[1], "/invocations", {"X-Large": "x" * 300_000}),
            image_call("bad image, KServe gRPC", "digits", some_file),
            Request("no message, gRPC", INFER, body=some_file),
            replace(image_call(CANCELLED, "digits", image), seconds=caller.random.uniform(0, 0.01)),
        ]
    )
    expected, ends = MAY_SUCCEED.get(request.name, BAD), LEFT.get(request.name, ())
    caller.send(replace(request, expected=expected, ends=ends))


def _leave(image: bytes, caller: Caller) -> None:
    """Send raw bytes for some seconds, partly one byte at a time, and disconnect regardless of the response."""
    address = caller.client.address
    request = HttpClient(image, "image/png", headers={ATTRIBUTES: "tfs-model-name=digits"}).request(address)
    head = request.removesuffix(image)
    tricks: list[tuple[bytes, Iterable[bytes | int], float]] = [  # the beginning, the rest, and the pause in it
        (caller.random.choice(NO_HTTP), [16], 0),
        *[(request, (), 0)] * 2,  # hangs up
        (head + image[: len(image) // 2], (), 0),
        (b"", map(int.to_bytes, head), 0.2),
        (head, map(int.to_bytes, image), 0.1),
        (request, [16] * 40, 0.05),  # reads slowly
    ]
    begin, rest, pause = caller.random.choice(tricks)
    speak(address.port, begin, islice(rest, caller.random.randrange(5, 40)), pause, caller.stop)
    caller.history.note(left=True)


def speak(port: int, begin: bytes, rest: Iterable[bytes | int], pause: float, stop: threading.Event) -> None:
    """Send ``begin``; then, until ``stop``, send each text of the rest or read that many bytes; then disconnect.

    It pauses for some seconds before each; without a pause it resets the connection, before the response. A connection
    closed by the server ends it without an error.
    """
    with suppress(OSError), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(begin)
        for step in rest:
            if stop.wait(pause):
                break
            if isinstance(step, bytes):
                connection.sendall(step)
            elif not connection.recv(step):
                break
        if not pause:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
