"""A hostile endpoint, and hostile names, against the commands that call and print: they cost rows, never the run."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from onnx import helper
from websockets.sync.server import ServerConnection, serve

from lightbox.base.control_characters import escape
from lightbox.base.telemetry import output
from lightbox.cli import main
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.start_checks import find_lasting_problems
from lightbox.tools.client import http, retries, senders
from lightbox.tools.client.invoke import read_server_timing
from support import onnx_models
from support.http_server import QuietHandler, serving
from support.isolation import own_environ
from support.parameters import each
from support.patience import PATIENCE

Reply = Callable[[BaseHTTPRequestHandler], None]
BAD = b"bad"


def reply(status: int = 200, body: bytes = b"{}", **headers: str) -> Reply:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def drip(begin: bytes) -> Reply:
    """Send a part of an answer, and then a byte now and then, for ever."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(begin)
        with suppress(OSError):
            while not handler.server.ended.wait(0.05):  # type: ignore[attr-defined]
                handler.wfile.write(b"1")

    return answer


@contextmanager
def endpoint(hostile: Reply) -> Iterator[tuple[str, list[str]]]:
    """Serve an endpoint that is hostile for one picture; yield its URL and the paths that were asked for."""
    asked = list[str]()
    ended = threading.Event()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            self.server.ended = ended  # type: ignore[attr-defined]
            super().setup()

        def handle(self) -> None:
            with suppress(OSError):  # it hangs up
                super().handle()

        def do_GET(self) -> None:
            asked.append(self.path)
            reply()(self)

        def do_POST(self) -> None:
            asked.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            (hostile if body == BAD else reply(body=b'{"predictions":[7]}', X_Lightbox_Model="cats/1"))(self)

    with serving(Handler) as url:
        try:
            yield url, asked
        finally:
            ended.set()


HUGE, LATE = str(10**30), "deadline_exceeded"
HOSTILE: dict[str, tuple[Reply, str | None, str]] = {
    "redirect": (reply(307, Location="/inside"), "bad_answer", "status 307: the endpoint leads to another address"),
    "large": (reply(body=bytes((25 << 20) + 1)), "bad_answer", "the answer is larger than 25 MiB"),
    "bomb": (reply(body=gzip.compress(bytes(30 << 20), 1), Content_Encoding="gzip"), "bad_answer", "larger than 25"),
    "no gzip": (reply(body=b"no gzip", Content_Encoding="gzip"), "bad_answer", ""),
    "slow body": (drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"), LATE, "no answer came within 1 s"),
    "slow head": (drip(b"HTTP/1.1 200 OK\r\nX: "), LATE, "no answer came within 1 s"),
    "retry": (reply(503, Retry_After=HUGE), "status_503", "{}"),
    "version": (reply(X_Lightbox_Model="=x/" + "9" * 5000), None, ""),
    "digit": (reply(X_Lightbox_Model="x/\xb2"), None, ""),
    "deep": (reply(400, b"[" * 200_000), "status_400", "[[["),
    "long code": (reply(400, json.dumps({"code": "c" * 10**6, "error": ["e" * 10**6]}).encode()), "c" * 100, "['eee"),
    "number": (reply(body=b'{"predictions":[' + b"9" * 10_000 + b"]}"), None, ""),
    "list": (reply(424, b"[1]", x_amzn_ErrorType="ModelError"), None, ""),
    "status": (reply(424, b'{"OriginalStatusCode": "x"}', x_amzn_ErrorType="ModelError"), None, ""),
}


@pytest.mark.extended
@pytest.mark.parametrize("protocol", ["http", "boto3"])
def test_a_hostile_endpoint_costs_rows(tmp_path: Path, protocol: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in (("a", BAD), ("b", b"good")):
        (folder / f"{name}.png").write_bytes(content)
    for name, (hostile, code, words) in HOSTILE.items():
        to = tmp_path / f"{name}.jsonl"
        with endpoint(hostile) as (url, asked):
            timeout = "1" if code == LATE else str(PATIENCE)
            more = ("--attempts", "1", "--timeout", timeout, "--protocol", protocol, "--model", "dogs")
            assert main(["predict", str(folder), "--url", url, "--to", str(to), *more]) in (0, 1), name
            assert main(["predict", str(folder), "--url", url, "--to", str(to), *more]) == 0, name
        rows = {row["path"]: row for row in map(json.loads, to.read_text().splitlines())}
        assert rows["b.png"]["response"] == 7 or (code == LATE == rows["b.png"]["code"]), name
        assert {row["model"] for row in rows.values()} == {"dogs"}, name
        if protocol == "http" or code in ("bad_answer", LATE):
            assert code is None or rows["a.png"]["code"] == code, name
            assert words in (rows["a.png"]["error"] or ""), name
        assert "/inside" not in asked


@each("header", ["9" * 30, "9" * 400, "60", "61"])
def test_nobody_waits_longer_than_a_minute_and_a_half(header: str) -> None:
    answer = senders.Response(503, b"", senders._seconds(header))
    assert 60 <= retries._pause(answer, 1) <= 90


def test_no_header_ends_invoke(tmp_path: Path) -> None:
    assert read_server_timing("a;dur=x, b;dur=, c;dur=1;dur=\x1b, ;=, d;dur=inf") == {"c": 1.0, "d": float("inf")}
    (tmp_path / "a.png").write_bytes(BAD)
    for hostile, code in (
        (reply(Server_Timing="a;dur=x"), 0),
        (reply(307, Location="http://127.0.0.1:1/"), 1),
        (reply(body=bytes(26 << 20)), 1),
        (reply(424, b"[1]"), 1),
        (reply(500, b'{"error": "\xff\\u001b[2J"}'), 1),
    ):
        with endpoint(hostile) as (url, _):
            assert main(["invoke", f"{tmp_path}/a.png", "--url", url]) == code


@each(
    "answer",
    [
        "no json",
        "[]",
        "{}",
        '{"frame": 9, "status": 200}',
        '{"frame": "x"}',
        '{"frame": 1, "dropped": -1}',
        "[" * 200_000,
    ],
)
def test_no_answer_ends_stream_with_a_traceback(answer: str) -> None:
    from lightbox.tools.client.stream_command import _read

    with pytest.raises(http.BadResponse):
        _read(answer, 2)


def test_a_stream_that_sends_too_much_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.png").write_bytes(BAD)

    def send(stream: ServerConnection) -> None:
        with suppress(Exception):
            stream.send(b"1" * (http.MOST_RESPONSE + 1))

    with serve(send, "127.0.0.1", 0, compression=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert main(["stream", str(tmp_path), "--url", f"http://127.0.0.1:{server.socket.getsockname()[1]}"]) == 1
    assert "the stream ended" in capsys.readouterr().out


ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\r\u2028"


def test_stdout_and_stderr_write_no_control_characters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        stream = output.log_to(file.fileno())
        print(f"{ESCAPES}ü\tend", file=stream)
        stream.writelines([ESCAPES, "\n"])
    written = (tmp_path / "out").read_text()
    assert written.startswith(r"\x1b]0;title\x07\x1b[2J\x9b31m\x0d\u2028ü" + "\tend\n")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028]", written)


def in_terminal(*words: str | Path) -> str:
    """Run lightbox in a terminal; return what it shows."""
    shown = list[bytes]()
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lightbox", *words], env=own_environ(), stdout=inner, stderr=inner
    )
    os.close(inner)
    with suppress(OSError):  # where nobody has the other end any more
        while piece := os.read(outer, 1 << 16):
            shown.append(piece)
    process.wait(PATIENCE)
    os.close(outer)
    return b"".join(shown).decode()


def test_what_a_models_file_names_stays_on_its_line(tmp_path: Path) -> None:
    forged = "a\n2026-01-01 [request] status=200"
    onnx_models.write_dense(tmp_path / "m" / "1" / "model.onnx")
    options = tmp_path / "m" / "code" / "lightbox.json"
    options.parent.mkdir()
    options.write_text(json.dumps({forged: 1}))
    settings = load_settings({"LIGHTBOX_MODEL_DIR": str(tmp_path / "m")})
    (problem,) = find_lasting_problems(settings)
    assert f"{escape(forged)}: there is no such option" in problem
    options.unlink()
    (tmp_path / "m" / "1" / "model.onnx").rename(tmp_path / "m" / "1" / f"{forged}.onnx")
    (tmp_path / "m" / "1" / f"{forged}.onnx").write_bytes(BAD)
    (problem,) = find_lasting_problems(settings)
    assert escape(forged) in problem
    assert "\n" not in problem


@pytest.mark.extended
def test_no_name_and_no_answer_reaches_a_terminal_as_it_is(tmp_path: Path) -> None:
    name = f"{ESCAPES[:-2]}\n2026-01-01 [request] status=200"
    model = tmp_path / "model.onnx"
    node = helper.make_node("Relu", [name], [f"y{name}"])
    onnx_models.write(model, [node], {name: ("FLOAT", [1, 4])}, {f"y{name}": ("FLOAT", [1, 4])})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"{name}.png").write_bytes(BAD)
    (tmp_path / "in" / f"{name}.tar").write_bytes(BAD)
    (tmp_path / "a.png").write_bytes(BAD)
    with endpoint(reply(200, ESCAPES.encode(), Server_Timing=f"{ESCAPES[:-2]};dur=1")) as (url, _):
        invoked = in_terminal("invoke", tmp_path / "a.png", "--url", url)
    with endpoint(reply(400, json.dumps({"error": name, "code": name}).encode())) as (url, _):
        predicted = in_terminal("predict", tmp_path / "in", "--url", url, "--to", tmp_path / "a.csv")
    checked = in_terminal("check", model)
    for text in (invoked, predicted, checked):
        assert "title" in text, text
        own = text.replace("\r\n", "\n").replace("\r\x1b[K", "")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028]", own), own
        assert not re.search("^2026-01-01", own, re.MULTILINE), own
