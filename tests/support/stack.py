"""The whole Lightbox stack, started like a user starts it, on free ports."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import psutil
import requests
from botocore.config import Config

from lightbox.cli import serve
from lightbox.tools.harness import stack as harness_stack
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import PAUSE_SECONDS
from support.isolation import clean_environ, own_environ
from support.patience import PATIENCE

REPOSITORY = Path(__file__).parents[2]
BOUNDS = frozenset(
    {
        "LIGHTBOX_REQUEST_TIMEOUT_SECONDS",
        "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS",
        "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS",
        "SAGEMAKER_BATCH",
    }
)
"""Time limits of a request. A test that sets none of them has no bound that a slow machine would meet."""
OTHER_FORMATS = (".onnx", ".xml", ".tflite")
SERVE = REPOSITORY / "serve.sh"


def typed(line: str, folder: Path) -> dict[str, str]:
    """Return the variables that a documented ``lightbox serve`` command sets, run in a folder."""
    lightbox, command, *words = shlex.split(line.replace("\\\n", " "))
    assert (lightbox, command) == ("lightbox", "serve")
    with chdir(folder), patch.dict(os.environ, clean_environ(), clear=True):
        before = dict(os.environ)
        serve.command.make_context(command, words)
        return {name: value for name, value in os.environ.items() if before.get(name) != value}


class Stack(harness_stack.Stack):
    """One running ``serve.sh serve``; its log is in ``log_path``, its temporary files under ``tmp``.

    SavedModels run with TensorFlow unless ``environ`` names an engine; "" is the default.
    """

    def __init__(
        self,
        model_dir: Path,
        tmp: Path,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str | Path] = (),
    ) -> None:
        own = {
            "LIGHTBOX_MODEL_DIR": str(model_dir),
            "LIGHTBOX_MODEL_SERVER": "embedded",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "LIGHTBOX_DRAIN_SECONDS": "3600",
        }
        if not BOUNDS.intersection(environ or {}):
            own["LIGHTBOX_REQUEST_TIMEOUT_SECONDS"] = str(round(PATIENCE))
        suffixes = {file.suffix for file in ([model_dir] if model_dir.is_file() else model_dir.rglob("*"))}
        if ".pb" in suffixes or not suffixes.intersection(OTHER_FORMATS):
            # auto is a race by time, other engines round otherwise, and comparing takes seconds for each model.
            own["LIGHTBOX_ENGINE"] = "tensorflow"
        if {**own, **(environ or {})}["LIGHTBOX_MODEL_SERVER"] != "embedded":
            own.pop("LIGHTBOX_ENGINE", None)  # the setting asks for the embedded one
        super().__init__(own | dict(environ or {}), own_environ(tmp), tmp, command=command or [SERVE])
        self.tmp = tmp
        self.environ = self.settings

    def ping(self) -> int | None:
        """Return the status of /ping, None when nobody answers."""
        return status_of(self.port, "/ping", seconds=PATIENCE)

    def wait_until(self, check: Callable[[], bool], seconds: float = PATIENCE, pause: float = PAUSE_SECONDS) -> float:
        """Wait as ``ServerProcess`` does, with a test's patience."""
        return super().wait_until(check, seconds, pause)

    def wait_ready(self) -> Stack:
        """Wait until /ping answers 200; raise ServerFailed with the log if it ends or takes too long."""
        self.until_ready(PATIENCE, pause=0.1)  # a start takes seconds, and each /ping takes CPU time from it
        return self

    def wait_for_ping(self, status: int, seconds: float = PATIENCE) -> None:
        """Wait until /ping answers with a status."""
        self.wait_until(lambda: self.ping() == status, seconds)

    def invoke(self, body: bytes, path: str = "/invocations", **headers: str) -> requests.Response:
        """POST a body; header names are written with underscores: ``Content_Type="image/png"``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.post(self.url + path, data=body, headers=named, timeout=PATIENCE)

    def lines_with(self, part: str, count: int = 1) -> list[str]:
        """Return the lines of the log with ``part`` when there are ``count``: a request's line follows its answer."""
        self.wait_until(lambda: self.log.count(part) >= count)
        return [line for line in self.log.splitlines() if part in line]

    def in_progress(self) -> int:
        """Return the number of requests in progress, from the metrics page."""
        page = requests.get(f"{self.url}/metrics", timeout=PATIENCE).text
        (found,) = [line.split()[1] for line in page.splitlines() if line.startswith("lightbox_requests_in_progress ")]
        return int(float(found))

    def present(self) -> int:
        """Return the number of running and waiting requests in the workers, including probes."""
        (table,) = self.tmp.glob("lightbox-*/requests_here/table")  # see lightbox/base/telemetry/metrics.py
        return sum(memoryview(table.read_bytes()).cast("q")[1::3])

    def boto3(self) -> Any:
        """Return a SageMaker Runtime client that calls this stack."""
        return boto3.client(
            "sagemaker-runtime",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"max_attempts": 0}, connect_timeout=PATIENCE, read_timeout=PATIENCE),
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

    def lose(self, part: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill the one process whose command line contains ``part``; after the return, /ping reflects its successor."""
        (process,) = self.processes(part)
        again = " and is started again in "
        noted = self.log.count(again)
        process.send_signal(number)
        self.wait_until(lambda: self.log.count(again) > noted)

    def begin_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait until the stop has begun."""
        logged = len(self.log)
        self.process.send_signal(number)
        self.wait_until(lambda: "stopping: accepted requests finish first" in self.log[logged:])

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Return the exit code of a stack that ends by itself."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill the stack with all children."""
        self.close()


@contextmanager
def running(model_dir: Path, tmp: Path, **environ: str) -> Iterator[Stack]:
    """Run a stack until it is ready, and stop it at the end."""
    with Stack(model_dir, tmp, environ) as stack:
        yield stack.wait_ready()


def free_port() -> int:
    """Return a free TCP port."""
    return free_ports()


def lives(process: psutil.Process) -> bool:
    """Return whether a process runs, and is no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
