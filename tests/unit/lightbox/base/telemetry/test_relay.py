"""Log lines on their way to a stderr that is full, closed or on a full disk."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lightbox.base.telemetry import logs, output, relay
from lightbox.base.telemetry.relay import LogRelay
from support.isolation import own_environ
from support.log_lines import without_times
from support.patience import PATIENCE, poll

DROPPED = "[lightbox] {} log lines were dropped, because they could not be written"


@pytest.fixture(autouse=True)
def nothing_unwritten() -> None:
    """Other tests of this process may have left lines that the next write would report."""
    logs._Unwritten.lines, logs._Unwritten.is_late = 0, False
    logs._Unwritten.cut.clear()


class Pipe:
    """A pipe of the least size."""

    def __init__(self) -> None:
        self.receive, self.send = os.pipe()

    def read_until(self, text: str) -> str:
        read = b""
        while text.encode() not in read:
            assert select.select([self.receive], [], [], PATIENCE)[0], read[-1000:]
            read += os.read(self.receive, 1 << 16)
        return without_times(read.decode())


def sent(to: LogRelay, lines: range) -> None:
    os.set_blocking(to.send, True)  # else a sender drops lines too where the reader gets no processor
    for number in lines:
        logs.write_line(f"line {number} " + "x" * 1000, to.send)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_full_pipe_gets_some_lines_and_the_number_of_the_others(
    monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    monkeypatch.setattr(relay, "MOST_WAITING", 100_000)
    pipe = Pipe()
    os.set_blocking(pipe.send, blocking)
    one = LogRelay(pipe.send)
    sent(one, range(1000))
    one.close(seconds=0.01)  # it waits for no reader
    text = pipe.read_until("line 0 ")
    while len(numbers := numbers_in(text)) + missing_in(text) < 1000:
        text += pipe.read_until("\n")
    assert numbers == sorted(set(numbers))
    assert missing_in(text) == one.dropped > 500


def test_its_threads_take_no_signal_of_the_main_thread() -> None:
    pipe = Pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    one = LogRelay(pipe.send)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    status = Path(f"/proc/self/task/{one._writer.native_id}/status").read_text()
    blocked = int(re.findall(r"SigBlk:\s+(\w+)", status)[0], 16)
    assert all(blocked >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGINT))
    one.close()


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^line (\d+) x{1000}\n", text, re.MULTILINE)]


def missing_in(text: str) -> int:
    return sum(map(int, re.findall(DROPPED.replace("[", r"\[").format(r"(\d+)"), text)))


def test_a_reader_that_comes_back_sees_how_much_is_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    first = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    one = LogRelay(os.open(tmp_path / "log", os.O_WRONLY))
    os.close(first)
    sent(one, range(3))
    assert any(one.dropped == 3 for _ in poll())
    pipe = Pipe()
    pipe.receive = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    sent(one, range(3, 4))
    missing, line = pipe.read_until("line 3 ").splitlines()
    assert missing == DROPPED.format(3)
    assert line.startswith("line 3 ")
    one.close()


FULL_DISK = """
import os, resource, sys, time
from lightbox.base.telemetry import logs, relay
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
relay.relay_stderr()
os.write(2, b"a" * 999 + b"\\n")
while os.stat("log").st_size < 1000:
    time.sleep(0.01)
os.write(2, b"b" * 999 + b"\\n" + b"c" * 999 + b"\\n")
while relay.dropped_lines() < 2:
    time.sleep(0.01)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print("a traceback", file=sys.stderr)
"""


def test_a_disk_that_was_full_gets_whole_lines_again(tmp_path: Path) -> None:
    """A limit of the file's size stands for the disk's: both let the kernel write the first part of a line."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "log").open("ab") as file:
        subprocess.run(
            [sys.executable, "-c", FULL_DISK], env=environ, cwd=tmp_path, stderr=file, check=True, timeout=PATIENCE
        )
    first, part, missing, last = without_times((tmp_path / "log").read_text()).splitlines()
    assert (first, part, last) == ("a" * 999, "b" * 500, "a traceback")
    assert missing == DROPPED.format(2)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A relay's socket that nobody reads."""
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.01)
    receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    with receiver, sender:
        yield receiver, sender


def test_a_worker_whose_supervisor_is_frozen_drops_lines_and_says_so(
    frozen: tuple[socket.socket, socket.socket],
) -> None:
    receiver, sender = frozen
    for number in range(5000):
        logs.write_line(f"line {number}", sender.fileno())
    receiver.setblocking(False)
    got = 0
    while True:
        try:
            receiver.recv(1000)
        except BlockingIOError:
            break
        got += 1
    assert 0 < got < 5000
    logs.write_line("after", sender.fileno())
    assert without_times(receiver.recv(1000).decode()) == DROPPED.format(5000 - got) + "\n"
    assert receiver.recv(1000) == b"after\n"


def test_a_print_does_not_wait_for_a_frozen_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.01)
    pipe = Pipe()
    stream = output.log_to(pipe.send, waits=False)
    for number in range(100):
        stream.write(f"line {number} " + "x" * 5000 + "\n")
    assert os.get_blocking(pipe.send)
    assert stream.fileno() == pipe.send
    text = os.read(pipe.receive, 1 << 16).decode()
    print("after", file=stream)
    text += pipe.read_until("after\n")
    whole = re.findall(r"^line \d+ x{5000}$", text, re.MULTILINE)
    *_, cut, missing, last, end = text.split("\n")
    assert re.fullmatch(r"line \d+ x*", cut)
    assert missing == DROPPED.format(100 - len(whole))
    assert (last, end) == ("after", "")


def test_a_print_of_user_code_never_fails(tmp_path: Path) -> None:
    pipe = Pipe()
    os.close(pipe.receive)
    print("nobody reads this", file=output.log_to(pipe.send))
    with (tmp_path / "log").open("wb") as file:
        print("half of a pair: \ud800", file=output.log_to(file.fileno()))
    assert (tmp_path / "log").read_text().endswith("half of a pair: \\ud800\n")


def run(words: str, redirections: str = "", stdout: int | None = None) -> tuple[int, str]:
    """Run a command with the redirections of a shell; return its exit code and its messages."""
    command = f"{sys.executable} -P -m lightbox {words} {redirections}"
    environ = own_environ() | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["sh", "-c", command],
        env=environ,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", ["--version", "serve --help", "check nowhere"])
def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word(words: str) -> None:
    pipe = Pipe()
    os.close(pipe.receive)
    assert run(words, stdout=pipe.send) == (141, "")


def test_results_on_a_full_disk_are_an_error_and_messages_are_not() -> None:
    assert run("--version", ">/dev/full") == (1, "lightbox: stdout: No space left on device\n")
    assert run("check nowhere", ">/dev/null 2>/dev/full") == (1, "")


def test_children_inherit_the_place_of_a_closed_descriptor() -> None:
    script = "import os, sys, lightbox.__main__; sys.exit(not os.get_inheritable(0))"
    environ = own_environ() | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(["sh", "-c", f"{sys.executable} -c '{script}' <&-"], env=environ, timeout=PATIENCE, check=True)


@pytest.mark.parametrize("words", ["--version", "serve --help"])
def test_closed_descriptors_are_no_error(words: str) -> None:
    assert run(words, ">&- 2>&- <&-") == (0, "")
