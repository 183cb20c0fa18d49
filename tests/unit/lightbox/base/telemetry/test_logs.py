"""Log output keeps its line structure, whatever the messages contain."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from lightbox.base.control_characters import escape
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry import logs
from lightbox.base.telemetry.logs import UNMATCHED, FinishedRequest, RequestLog, line, log
from lightbox.base.telemetry.relay import LogRelay
from support.log_lines import without_times
from support.patience import PATIENCE

HOSTILE = "a\nb\r\x1b[31m\x00\x85\u2028\ud800"


@pytest.fixture(autouse=True)
def text_form() -> Iterator[None]:
    yield
    logs.use_json(False)


def finished(route: str = UNMATCHED, path: str = "/x", context: RequestContext | None = None) -> FinishedRequest:
    return FinishedRequest("id-1", "POST", path, route, 404, 12, 34, "route_not_found", context or RequestContext(30))


def logged(tmp_path: Path, request: FinishedRequest, as_json: bool) -> str:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        RequestLog(descriptor, as_json).responded(request)
    finally:
        os.close(descriptor)
    return path.read_text()


def test_control_characters_are_escaped() -> None:
    assert escape(HOSTILE) == "a\\x0ab\\x0d\\x1b[31m\\x00\\x85\\u2028\\ud800"
    assert escape("Grüße, 猫 and a space") == "Grüße, 猫 and a space"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_line_is_one_line(as_json: bool) -> None:
    logs.use_json(as_json)
    assert "\n" not in line("nginx", HOSTILE)
    assert "\x1b" not in line("nginx", HOSTILE)


def test_what_a_child_says_is_wrapped_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.use_json(True)
    log('{"message": "request", "status": 200}', "gunicorn")
    entry = json.loads(capsys.readouterr().err)
    assert (entry["process"], entry["message"]) == ("gunicorn", '{"message": "request", "status": 200}')
    assert entry["time"].endswith("+00:00")


def test_lines_are_written_at_once() -> None:
    """With PYTHONUNBUFFERED, as in the image, each write is a system call: another line may come between two."""
    script = "from lightbox.base.telemetry.logs import log; log('one\\ntwo')"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # one message per system call
    with ours, theirs:
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
        subprocess.run([sys.executable, "-c", script], env=environ, stderr=theirs.fileno(), check=True)
        assert without_times(ours.recv(1000).decode()) == "[lightbox] one\n[lightbox] two\n"


def test_a_request_names_its_parts_and_times(tmp_path: Path) -> None:
    context = RequestContext(30)
    context.model, context.transport = "cats", "grpc"
    with context.stage("decode"), context.stage("predict"):
        pass
    entry = json.loads(logged(tmp_path, finished("/invocations", context=context), as_json=True))
    assert list(entry)[:9] == [
        "time", "process", "message", "request_id", "method", "route", "model", "transport", "status"
    ]  # fmt: skip
    assert (entry["bytes_in"], entry["bytes_out"], entry["error"]) == (12, 34, "route_not_found")
    assert {"decode_ms", "predict_ms", "total_ms"} <= entry.keys()
    assert "path" not in entry


def test_a_path_without_a_route_is_shown_short_and_harmless(tmp_path: Path) -> None:
    text = logged(tmp_path, finished(path="/a b\n[request] status=200" + "x" * 1000), as_json=False)
    assert text.count("\n") == 1
    assert "path=/a%20b\\x0a[request]%20status=200xxx" in text
    assert len(text) < 500


def test_a_reader_that_has_gone_is_no_error() -> None:
    receive, send = os.pipe()
    os.close(receive)
    RequestLog(send, as_json=True).responded(finished())
    os.close(send)


def in_process(code: str) -> tuple[str, str]:
    """Run statements in a fresh interpreter; return stdout and stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ())
    return done.stdout, done.stderr


def environ() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(logs.__file__).parents[3])}


RAISE = """
import logging
from lightbox.base.telemetry.logs import log_like_others
log_like_others("info", {as_json}, 1)
try:
    raise ValueError("no\\nERROR:root:forged")
except ValueError:
    logging.getLogger("mine").exception("bad\\nERROR:root:forged")
"""


def test_records_of_the_logging_module_cannot_be_forged_as_text() -> None:
    text, _ = in_process(RAISE.format(as_json=False))
    lines = without_times(text).splitlines()
    assert lines[0] == "[gunicorn] ERROR:mine:bad\\x0aERROR:root:forged"
    assert all(entry.startswith("[gunicorn]   | ") for entry in lines[1:])


def test_records_of_the_logging_module_are_one_json_object() -> None:
    text, _ = in_process(RAISE.format(as_json=True))
    entry = json.loads(text)
    assert (entry["level"], entry["logger"], entry["message"]) == ("error", "mine", "bad\nERROR:root:forged")
    assert entry["traceback"].startswith("Traceback")


PRINTS = """
import contextvars, logging, sys, threading
from lightbox.base.telemetry.logs import log_like_others, OfRequest
log_like_others("info", {as_json}, 1)
def work(name):
    with OfRequest(name):
        print("printed", name)
        print("no end", end="")
        print("half of it, ", end="", file=sys.stderr)
        logging.getLogger("mine").info("logged")
        own = threading.Thread(target=contextvars.copy_context().run, args=(print, "in a thread"))
        own.start()
        own.join()
for name in ("a", "b"):
    thread = threading.Thread(target=work, args=(name,))
    thread.start()
    thread.join()
sys.stdout.flush()
print("outside", flush=True)
"""


def test_what_a_request_prints_and_logs_has_its_id() -> None:
    found = [json.loads(entry) for entry in in_process(PRINTS.format(as_json=True))[0].splitlines()[:-1]]
    assert [(entry["message"], entry["request_id"]) for entry in found] == [
        (message, name)
        for name in ("a", "b")
        for message in (f"printed {name}", "logged", "in a thread", "no end", "half of it, ")
    ]
    text = without_times(in_process(PRINTS.format(as_json=False))[0]).splitlines()
    assert text[:2] == ["[gunicorn] printed a request_id=a", "[gunicorn] INFO:mine:logged request_id=a"]
    assert text[-1] == "outside"


THROW = """
import logging, sys, threading
from pathlib import Path
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.logs import FinishedRequest, RequestLog, log, log_like_others
number = sys.argv[1]
log_like_others("info", {as_json}, 1)
requests = RequestLog(1, {as_json})
def fail(depth):
    raise ValueError(number * 200) if depth == 0 else None
def throw():
    for _ in range(10):
        try:
            for name in ("first", "second"):
                try:
                    fail(0)
                except ValueError as error:
                    raise RuntimeError(number * 9000) from error
        except RuntimeError:
            logging.getLogger("mine").exception("failed %s", number)
        requests.responded(FinishedRequest("id", "POST", "/x", "/invocations", 500, 1, 2, "x", RequestContext(30)))
threads = [threading.Thread(target=throw) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def slowly(pipe: FileIO) -> bytes:
    time.sleep(0.0005)
    return pipe.read(5000)


@pytest.mark.parametrize("as_json", [False, True])
def test_no_line_splits_the_records_of_workers_that_fail_at_once(as_json: bool) -> None:
    """Each record is longer than an atomic write to a pipe, and the reader is slower than the writers."""
    receive, send = os.pipe()
    relay = LogRelay(send)
    code = THROW.format(as_json=as_json)
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], stdout=relay.send, env=environ())
        for number in range(4)
    ]
    pieces: list[bytes] = []
    with os.fdopen(receive, "rb", buffering=0) as pipe:
        reader = threading.Thread(target=lambda: pieces.extend(iter(lambda: slowly(pipe), b"")))
        reader.start()
        assert [worker.wait(PATIENCE) for worker in workers] == [0] * 4
        relay.close(PATIENCE)
        os.close(send)
        reader.join()
    text = without_times(b"".join(pieces).decode())
    lines = text.splitlines()
    if as_json:
        entries = [json.loads(line) for line in lines]
        assert sum(entry["message"].startswith("failed") for entry in entries) == 4 * 4 * 10
        return
    records = re.findall(
        r"\[gunicorn\] ERROR:mine:failed (\d)\n((?:\[gunicorn\]   \| .*\n|\[gunicorn\]   \|\n)*)", text
    )
    assert len(records) == 4 * 4 * 10
    for number, traceback in records:
        assert traceback.splitlines()[0].endswith("Traceback (most recent call last):")
        assert traceback.splitlines()[-1] == f"[gunicorn]   | RuntimeError: {number * 9000}"
    assert sum(line.startswith("[request] ") for line in lines) == 4 * 4 * 10


def test_what_ends_a_thread_and_a_warning_are_records_too() -> None:
    code = """
import threading, warnings
from lightbox.base.telemetry.logs import log_like_others
log_like_others("info", False, 1)
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0, name="mine")
thread.start()
thread.join()
"""
    text, other = in_process(code)
    lines = without_times(text).splitlines()
    assert other == ""
    assert lines[0].startswith("[gunicorn] WARNING:py.warnings:") and "UserWarning: old" in lines[0]
    assert lines[1] == "[gunicorn] ERROR:lightbox:the thread mine has ended"
    assert lines[-1] == "[gunicorn]   | ZeroDivisionError: division by zero"


def test_a_worker_without_a_supervisor_logs_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(logs.DESCRIPTOR_VARIABLE, raising=False)
    assert logs.worker_descriptor() == 2
