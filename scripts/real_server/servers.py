"""Starts the model server alone, and Lightbox with it."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmark.servers.address import Address
from benchmark.servers.base import Running, clean_environ, launch, status_of, wait_until
from harness.ports import free_ports
from real_server.program import REPOSITORY

ANSWER_SECONDS = 120.0


@contextmanager
def model_server(program: Path, folder: Path, *flags: str) -> Iterator[tuple[str, str]]:
    """Run the model server; give its gRPC and REST addresses once it answers."""
    port = free_ports(2)
    command = [str(program), f"--port={port}", f"--rest_api_port={port + 1}", *flags]
    process, log = launch(command, folder, clean_environ(TF_CPP_MIN_LOG_LEVEL="2"))
    running = Running("model server", process, Address(port), log)
    try:
        wait_until(lambda: status_of(port + 1, "/v1/models/any") is not None, process, log)
        yield f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    finally:
        running.stop()


@dataclass(frozen=True)
class Lightbox:
    """A Lightbox that serves; ``pid`` is its supervisor's."""

    port: int
    pid: int

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send one request; return the status and the parsed body, its text where that is no JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
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
    port = free_ports(12)
    folder.mkdir()
    environ = clean_environ(
        LIGHTBOX_MODEL_SERVER="tensorflow_model_server",
        LIGHTBOX_MODEL_DIR=str(models),
        SAGEMAKER_BIND_TO_PORT=str(port),
        SAGEMAKER_SAFE_PORT_RANGE=f"{port + 1}-{port + 11}",
        PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        TMPDIR=str(folder),
        TF_CPP_MIN_LOG_LEVEL="2",
    )
    process, log = launch([str(REPOSITORY / "serve.sh"), "serve"], folder, environ | dict(settings))
    running = Running("lightbox", process, Address(port), log)
    try:
        wait_until(lambda: status_of(port, "/ping") == 200, process, log)
        yield Lightbox(port, process.pid)
    finally:
        running.stop()
