"""Stands between Lightbox and a model server, passes bytes on, and spoils the answers while a file says how.

It never mends a connection that has had garbage: callers must leave it.

``python -m faults.stand_in FILE PROGRAM ...`` starts the program with other ports and sockets than its flags name.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from faults.callers import wait_for
from faults.fault import Fault, Target
from faults.stack import MODEL_SERVER, VARIABLE, Settings
from lightbox.base.machine.local_sockets import connect
from lightbox.supervisor.child import die_with_parent
from lightbox.tools.harness.ports import free_ports
from real_server.program import NAME

PORTS, SOCKETS = ("--port", "--rest_api_port"), ("--grpc_socket_path",)
LATE_SECONDS, SECONDS = 40.0, 10.0
LOOK_SECONDS = 0.05
LEFT_SECONDS = 60.0
"""Twice the time of a request, at whose end a connection is left that has had garbage: so long this fault may last."""


class Spoiled(StrEnum):
    """How answers are spoiled."""

    GARBAGE = "garbage"
    HALF = "half an answer"
    LATE = "an answer after the deadline"


def faults(file: Path) -> list[Fault]:
    """Return those of a stack whose model server stands behind a stand-in with this file."""
    return [
        # No answer to a probe is a hang, garbage looks like one: it is replaced. What cannot be read is 502, what
        # comes too late 504, and both are 424 on boto3's route.
        Fault(f"the model server sends {how}", partial(_spoil, file, how), may=(502, 504, 424), ends=(MODEL_SERVER,))
        for how in Spoiled
    ]


@contextmanager
def settings(file: Path, program: Sequence[str]) -> Iterator[Settings]:
    """Yield what has a stack take a program for its model server, with a stand-in before it."""
    file.write_text("")
    _spoilt(file).mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        command = shlex.join([sys.executable, "-m", "faults.stand_in", str(file), *program])
        path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(os.pathsep.join(sys.path))} exec {command} "$@"\n')
        path.chmod(0o755)
        yield (VARIABLE, NAME), ("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def _spoil(file: Path, how: Spoiled, target: Target) -> None:
    file.write_text(how)
    try:
        target.stop.wait(LATE_SECONDS if how is Spoiled.LATE else SECONDS)
    finally:
        file.write_text("")
    wait_for(lambda: not any(_spoilt(file).iterdir()), LEFT_SECONDS, target.stop)


def _spoilt(file: Path) -> Path:
    """Return the folder with a file for each open connection that has had garbage."""
    return file.with_name(f"{file.name}.connections")


async def _pass_on(file: Path, behind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Connect a caller with the address behind; spoil the answers."""
    with suppress(OSError), _closing(writer):
        back, forth = await connect(behind)
        with _closing(forth):
            ways = {asyncio.create_task(_copy(reader, forth, None)), asyncio.create_task(_copy(back, writer, file))}
            _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                other.cancel()
    _mark(file, writer).unlink(missing_ok=True)


def _mark(file: Path, writer: asyncio.StreamWriter) -> Path:
    return _spoilt(file) / str(id(writer))


@contextmanager
def _closing(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, file: Path | None) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            how = file.read_text() if file else ""
            if file and how == Spoiled.GARBAGE:
                _mark(file, writer).touch()
                data = os.urandom(len(data))
            if how == Spoiled.HALF:
                writer.write(data[: len(data) // 2])
                return
            late_at = time.monotonic() + LATE_SECONDS
            while file and how == Spoiled.LATE and time.monotonic() < late_at and file.read_text() == how:
                await asyncio.sleep(LOOK_SECONDS)
            writer.write(data)
            await writer.drain()


async def _serve(file: Path, words: list[str]) -> int:
    for mark in _spoilt(file).iterdir():  # of an earlier process, which has been replaced
        mark.unlink()
    command, served = [], []
    for word in words:
        flag, _, value = word.partition("=")
        if (flag in PORTS and value != "0") or flag in SOCKETS:
            behind = f"{value}.behind" if flag in SOCKETS else str(free_ports())
            served.append((value, f"unix:{behind}" if flag in SOCKETS else f"127.0.0.1:{behind}"))
            command.append(f"{flag}={behind}")
        else:
            command.append(word)
    program = await asyncio.create_subprocess_exec(*command, preexec_fn=die_with_parent)
    for address, behind in served:
        call = partial(_pass_on, file, behind)
        if address.isdecimal():
            await asyncio.start_server(call, "127.0.0.1", int(address))
        else:
            await asyncio.start_unix_server(call, address)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, program.terminate)
    return await program.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2:])))
