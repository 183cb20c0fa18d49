"""Starts the model server alone, and Lightbox with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lightbox.harness.http_client import Client, status_of
from lightbox.harness.ports import free_ports
from lightbox.harness.server import ServerProcess
from lightbox.harness.stack import Stack, clean_environ

ANSWER_SECONDS = 300.0


@contextmanager
def model_server(program: Path, folder: Path, *flags: str) -> Iterator[tuple[str, str]]:
    """Run the model server; give its gRPC and REST addresses once it answers."""
    port = free_ports(2)
    command = [str(program), f"--port={port}", f"--rest_api_port={port + 1}", *flags]
    with ServerProcess(command, clean_environ() | {"TF_CPP_MIN_LOG_LEVEL": "2"}, folder) as server:
        server.wait_until(lambda: status_of(port + 1, "/v1/models/any") is not None)
        yield f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"


@dataclass(frozen=True)
class Lightbox:
    """A Lightbox that serves; ``pid`` is its supervisor's."""

    port: int
    pid: int

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send one request; return the status and the parsed body, its text where that is no JSON."""
        with Client(self.port, ANSWER_SECONDS) as client:
            answer = client.send(method, path, body, headers)
        text = answer.body.decode(errors="replace")
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def listening(self) -> set[int]:
        """Return the TCP ports on which its processes listen; those of a container are its own."""
        family = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        found = [connection for process in family for connection in process.net_connections("tcp")]
        return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


@contextmanager
def lightbox(program: Path, models: Path, folder: Path, settings: Sequence[tuple[str, str]] = ()) -> Iterator[Lightbox]:
    """Run ``serve.sh serve`` over the model server until /ping is 200, then stop it.

    ``folder`` is where it may write: short, as the path of a unix socket has 108 bytes.
    """
    own = {
        "LIGHTBOX_MODEL_SERVER": "tensorflow_model_server",
        "LIGHTBOX_MODEL_DIR": str(models),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    with Stack(own | dict(settings), clean_environ(), folder) as stack:
        stack.until_ready()
        yield Lightbox(stack.port, stack.process.pid)
