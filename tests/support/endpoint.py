"""A server with /ping and /invocations, and runs of lightbox predict against it."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from lightbox.cli import main
from support.http_server import serving
from support.patience import PATIENCE

Reply = tuple[int, dict[str, str], bytes]
Answer = Callable[[bytes, int], Reply | None]
"""Takes an image and the number of times it was sent, including this one; None closes the connection."""


class Endpoint:
    """A server with /ping and /invocations; ``came`` counts the requests of each body."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.came: Counter[bytes] = Counter()
        self.headers: list[dict[str, str]] = []
        self.times: dict[bytes, list[float]] = {}


@contextmanager
def endpoint(answer: Answer) -> Iterator[Endpoint]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(200, {}, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                served.came[body] += 1
                served.headers.append(dict(self.headers))
                served.times.setdefault(body, []).append(time.monotonic())
                times = served.came[body]
            reply = answer(body, times)
            if reply is None:
                self.close_connection = True
            else:
                self._reply(*reply)

        def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    with serving(Handler) as url:
        served = Endpoint(url)
        yield served


def good(body: bytes, _: int = 1) -> Reply:
    return 200, {"X-Lightbox-Model": "cats/3"}, json.dumps({"predictions": [body.decode()]}).encode()


def refuse(seconds: str) -> Reply:
    return 503, {"Retry-After": seconds}, b'{"error": "try again: the queue is full"}'


def run(folder: Path, url: str, *more: str, out: str = "out.jsonl") -> int:
    own = ("--url", url, "--to", str(folder.parent / out), "--timeout", str(PATIENCE))
    return main(["predict", str(folder), *own, *more])


def results(folder: Path, out: str = "out.jsonl") -> dict[str, dict[str, Any]]:
    """Return the rows of a target, or of the parts of an unfinished one."""
    file = folder.parent / out
    files = [file] if file.exists() else sorted(file.with_name(f"{out}.parts").glob("part-*"))
    lines = [json.loads(line) for part in files for line in part.read_text().splitlines()]
    found = {line["path"]: line for line in lines}
    assert len(found) == len(lines), "an image has two rows"
    return found


def write_photos(folder: Path) -> Path:
    """Write files with names of images, and two that are none."""
    (folder / "more").mkdir(parents=True)
    for name in ("a.jpg", "b.PNG", "more/c.webp"):
        (folder / name).write_bytes(name.encode())
    (folder / "notes.txt").write_text("notes")
    (folder / ".hidden.jpg").write_bytes(b"hidden")
    return folder
