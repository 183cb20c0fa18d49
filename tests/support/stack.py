"""The whole of Lightbox, started as a user starts it, on free ports."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
import psutil
import requests
from botocore.config import Config

from harness.ports import free_ports

REPOSITORY = Path(__file__).parents[2]
SERVE = REPOSITORY / "serve.sh"
START_SECONDS = 90.0


class StackFailed(Exception):
    """The stack did not become ready, or did not stop."""


class Stack:
    """One running ``serve.sh serve``; its log is in ``log_path``, its temporary files under ``tmp``."""

    def __init__(self, model_dir: Path, tmp: Path, environ: Mapping[str, str] | None = None) -> None:
        tmp.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        low = free_ports(10)
        self.ports = (self.port, low, low + 1)
        self.log_path = tmp / "serve.log"
        self.tmp = tmp
        self.environ = {
            "LIGHTBOX_MODEL_DIR": str(model_dir),
            "SAGEMAKER_BIND_TO_PORT": str(self.port),
            "SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 9}",
            "LIGHTBOX_MODEL_SERVER": "embedded",
            "TMPDIR": str(tmp),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        } | dict(environ or {})
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [SERVE, "serve"],
                cwd=tmp,
                env=clean_environ() | self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text(errors="replace")

    def wait_ready(self) -> Stack:
        """Wait until /ping answers 200; raise StackFailed with the log if it ends or takes too long."""
        for _ in poll(START_SECONDS):
            if self.process.poll() is not None:
                raise StackFailed(f"ended with {self.process.returncode}:\n{self.log}")
            if self.ping() == 200:
                return self
        raise StackFailed(f"not ready after {START_SECONDS} s:\n{self.log}")

    def wait_for_ping(self, status: int, seconds: float = 20.0) -> None:
        """Wait until /ping answers with a status."""
        if not any(self.ping() == status for _ in poll(seconds)):
            raise StackFailed(f"/ping did not answer {status} within {seconds} s:\n{self.log}")

    def ping(self) -> int | None:
        """Return the status of /ping, None when nobody listens."""
        try:
            return requests.get(f"{self.url}/ping", timeout=5).status_code
        except requests.ConnectionError:
            return None

    def invoke(self, body: bytes, path: str = "/invocations", **headers: str) -> requests.Response:
        """POST a body; header names are written with underscores: ``Content_Type="image/png"``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.post(self.url + path, data=body, headers=named, timeout=60)

    def wait_until_computing(self, part: str = "-m model_server") -> None:
        """Wait until a process computes. On a busy machine it gets a share of a core; at rest it uses a hundredth."""
        assert any(any(process.cpu_percent(0.1) > 15 for process in self.processes(part)) for _ in poll(20)), self.log

    def boto3(self) -> Any:
        """Return a SageMaker Runtime client that calls this stack."""
        return boto3.client(
            "sagemaker-runtime",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"max_attempts": 0}),
        )

    def processes(self, part: str) -> list[psutil.Process]:
        """Return the processes below this one whose command line contains ``part``."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if part in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 40.0) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def wait(self, seconds: float = 60.0) -> int:
        """Return the exit code of a stack that ends by itself."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Stop for sure, with all children."""
        if self.process.poll() is None:
            children = psutil.Process(self.process.pid).children(recursive=True)
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
            for child in children:
                try:
                    child.kill()
                except psutil.NoSuchProcess:
                    continue


@contextmanager
def running(model_dir: Path, tmp: Path, **environ: str) -> Iterator[Stack]:
    """Run a stack until it is ready, and stop it at the end."""
    with Stack(model_dir, tmp, environ) as stack:
        yield stack.wait_ready()


def clean_environ() -> dict[str, str]:
    """Return the environment without settings of this shell that would reach the stack."""
    left_out = ("LIGHTBOX_", "SAGEMAKER_", "GRPC_")
    return {key: value for key, value in os.environ.items() if not key.startswith(left_out)}


def poll(seconds: float, pause: float = 0.05) -> Iterator[None]:
    """Yield again and again until a deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)


def free_port() -> int:
    """Return a TCP port nobody listens on."""
    return free_ports()
