"""A handler's monkey patches, made for AWS's gevent workers, do not change the worker's threads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lightbox.user_code import api_detection as loader
from support import commands

from .conftest import WriteCode

PLAYED = """
def monkey_patch(**modules):
    raise SystemExit("this process is patched")
"""
USE = """
import logging, sys, threading, time
from pathlib import Path
from lightbox.user_code.api_detection import load_functions

logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
real = threading.Thread.start, time.sleep, __import__("socket").socket
functions = load_functions(Path(sys.argv[1]))
assert real == (threading.Thread.start, time.sleep, __import__("socket").socket)
began, go = threading.Event(), threading.Event()
threads = [threading.Thread(target=lambda: (began.set(), go.wait())) for _ in range(2)]
[thread.start() for thread in threads]
began.wait()
go.set()
[thread.join() for thread in threads]
print(functions["handler"](None, None))
"""


def load(file: Path) -> str:
    """Load a handler in a separate process, whose threads must keep running; return the output."""
    container = Path(loader.__file__).parents[2]
    command = [sys.executable, "-P", "-c", USE, str(file)]
    return commands.output(command, env={"PYTHONPATH": str(container)})


@pytest.mark.parametrize(
    "patch",
    [
        "from gevent import monkey\nmonkey.patch_all()",
        "import gevent.monkey\ngevent.monkey.patch_all(thread=False)",
        "from gevent.monkey import patch_socket, patch_thread\npatch_socket()\npatch_thread()",
    ],
)
def test_gevents_patches_change_nothing_and_its_greenlets_work(write_code: WriteCode, patch: str) -> None:
    file = write_code(
        f"{patch}\nimport gevent\n"
        "def handler(data, context):\n"
        "    jobs = [gevent.spawn(lambda number=number: number * 2) for number in range(3)]\n"
        "    gevent.joinall(jobs)\n"
        "    return [job.value for job in jobs]\n"
    )
    printed = load(file)
    assert "() is disabled: each request has a thread of its own" in printed
    assert "gevent.monkey.patch_" in printed
    assert printed.splitlines()[-1] == "[0, 2, 4]"


def test_eventlets_patches_change_nothing(write_code: WriteCode) -> None:
    """eventlet is not installed: a fake module with the same names replaces it."""
    file = write_code("import eventlet\neventlet.monkey_patch()\ndef handler(data, context): return 'here'\n")
    package = file.parent / "lib" / "eventlet"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from eventlet import patcher\nmonkey_patch = patcher.monkey_patch\n")
    (package / "patcher.py").write_text(PLAYED)
    assert load(file).splitlines()[-1] == "here"
