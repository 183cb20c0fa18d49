"""Readers of the log that end, sleep or fail: requests are answered, and a stop ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import numpy as np
import psutil
import pytest
import requests

from support.fakes import png
from support.models import export_constant
from support.patience import PATIENCE
from support.stack import SERVE, Stack, free_port, running

pytestmark = pytest.mark.extended

TALKS = """
import logging, os, sys

def postprocess(outputs, request):
    for _ in range(25):
        print("x" * 50_000)
        print("y" * 1000, file=sys.stderr)
        logging.warning("z" * 5000)
        os.write(1, b"w" * 1000 + b"\\n")
    return {"said": "enough"}
"""
"""Each request logs more than a megabyte: a few of them fill everything between it and the reader."""
PRINTS = """
def postprocess(outputs, request):
    print("x" * 100_000)
    return {"said": "enough"}
"""
REQUESTS = 8
MUCH = {"LIGHTBOX_HANDLER_LOG_KB": "1000000"}
SETTINGS = MUCH | {"LIGHTBOX_STREAMS": "true", "SAGEMAKER_GUNICORN_WORKERS": "2"}
LEAST_PROCESSES = 8
PICTURE = png(np.zeros((8, 8, 3), np.uint8))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models")
    export_constant(folder / "constant", 1, 0.5)
    (folder / "constant" / "code").mkdir()
    (folder / "constant" / "code" / "inference.py").write_text(TALKS)
    return folder


def fifo(path: Path) -> int:
    """Make the smallest FIFO; return the descriptor of its reader."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    return reader


@pytest.mark.parametrize(
    ("output", "reader_ends"),
    [
        ("fifo", "when ready"),
        ("fifo", "never, and sleeps"),
        ("/dev/full", ""),
        ("closed", ""),
    ],
)
def test_no_log_holds_a_request_or_a_stop(models: Path, tmp_path: Path, output: str, reader_ends: str) -> None:
    path = tmp_path / "log"
    if output == "fifo":
        reader = fifo(path)
    elif output == "/dev/full":
        path = Path(output)
    redirections = ">&- 2>&-" if output == "closed" else f">{path} 2>&1"
    settings = SETTINGS | {"LIGHTBOX_KSERVE_GRPC_PORT": str(free_port())}
    with Stack(models, tmp_path, settings, ["sh", "-c", f'exec "$0" "$@" {redirections}', SERVE]) as stack:
        stack.wait_ready()
        if reader_ends == "when ready":
            os.close(reader)
        for _ in range(REQUESTS):
            assert stack.invoke(PICTURE).json() == {"said": "enough"}
        page = requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text
        (dropped,) = [line for line in page.splitlines() if line.startswith("lightbox_log_lines_dropped_total ")]
        assert (float(dropped.split()[1]) > 0) == (output != "closed")
        processes = psutil.Process(stack.process.pid).children(recursive=True)
        assert len(processes) >= LEAST_PROCESSES
        assert stack.stop() == 0
        assert psutil.wait_procs(processes, PATIENCE)[1] == []


def test_no_print_waits_for_a_supervisor_that_is_suspended(tmp_path: Path) -> None:
    code = tmp_path / "models" / "constant" / "code"
    export_constant(code.parent, 1, 0.5)
    code.mkdir()
    (code / "inference.py").write_text(PRINTS)
    with running(tmp_path / "models", tmp_path, **MUCH) as stack:
        supervisor = psutil.Process(stack.process.pid)
        supervisor.suspend()
        for _ in range(REQUESTS):
            assert stack.invoke(PICTURE).json() == {"said": "enough"}
        supervisor.resume()
        stack.wait_for_ping(200)
        assert stack.invoke(PICTURE).json() == {"said": "enough"}
        stack.wait_until(lambda: "log lines were dropped, because they could not be written" in stack.log)
