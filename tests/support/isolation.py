"""The environment of each Lightbox that a test starts; as a plugin, it fails a test that starts one without.

PYTEST_DONT_REWRITE: conftest.py imports it before pytest does.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lightbox.tools.harness.ports import free_ports

CALLERS = re.compile(r"(LIGHTBOX|SAGEMAKER|AWS|OTEL|GRPC|AIP)_|PYTHON\w|PREDICT_USING_GRPC|(PORT|K_SERVICE)$")
"""Variables of the shell that starts pytest which would change what a test sees."""
PROCESS = "GRPC_ENABLE_FORK_SUPPORT"
"""Set by ``support`` itself, for the test's own process."""
PORTS = 8
FOLDERS = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
GIVEN = ("SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE", "TMPDIR", *FOLDERS)
BEFORE = {name: os.environ.get(name) for name in GIVEN}
MODULES = {"lightbox", "lightbox.model_runtime.server", "faults", "benchmark", "ipykernel_launcher"}
TARGETS = {"serve", "faults", "bench", "test", "test-all"}
SHELLS = {"sh", "bash"}
LEADING = {"env", "timeout", "nice", "unshare", "setpriv", "sudo"}
"""Programs that run the rest of their words."""
IN_SHELL = re.compile(r"(^|[\s;&|(\"'])((\S*/)?(serve\.sh|lightbox) +[a-z]|-m lightbox\s|make serve\b)", re.MULTILINE)
_around: list[str] = []


def clean_environ() -> dict[str, str]:
    """Return this process's environment without the variables of its caller that would reach a program."""
    return {name: value for name, value in os.environ.items() if not CALLERS.match(name)}


def own_environ(folder: Path | None = None) -> dict[str, str]:
    """Return the environment of a Lightbox: free ports, a TMPDIR (``folder`` or a new one), a home.

    XDG_CACHE_HOME is the run's, so that all its stacks share the checks of a model.
    """
    port = free_ports(PORTS)
    return clean_environ() | {
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SAGEMAKER_SAFE_PORT_RANGE": f"{port + 1}-{port + PORTS - 1}",
        "TMPDIR": str(folder or tempfile.mkdtemp(prefix="")),
        **dict.fromkeys(FOLDERS, _home()),
    }


@cache
def _home() -> str:
    return tempfile.mkdtemp(prefix="")


def is_lightbox(words: Sequence[str]) -> bool:
    """Return whether a command starts Lightbox, or a program that serves with it."""
    names = [Path(word).name for word in words]
    if not names:
        return False
    if (
        names[0] == "lightbox"
        or (names[0] in LEADING and "lightbox" in names[1:-1])
        or "serve.sh" in names
        or (names[0] == "make" and TARGETS.intersection(words) and "--dry-run" not in words)
    ):
        return True
    if any(option == "-m" and module in MODULES for option, module in pairwise(words)):
        return True
    return bool(SHELLS.intersection(names)) and any(IN_SHELL.search(_script(word)) for word in words[1:])


def _script(word: str) -> str:
    """Return a shell's text: a word, or the file that it names."""
    try:
        return Path(word).read_text(errors="replace")
    except (OSError, ValueError):
        return word


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _, command, _, environ = arguments
    elif event in ("os.posix_spawn", "os.exec"):
        _, command, environ = arguments
    else:
        return
    words = [os.fsdecode(word) for word in ([command] if isinstance(command, str | bytes | os.PathLike) else command)]
    if is_lightbox(words) and (missing := not_own(os.environ if environ is None else environ)):
        _around.append(f"{' '.join(words)}: expected support.isolation.own_environ; it lacks {', '.join(missing)}")
        raise AssertionError(_around[-1])


def not_own(environ: Mapping[Any, Any]) -> list[str]:
    """Return the variables of ``own_environ`` that an environment lacks or has from the shell that started pytest."""
    found = {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}
    return [name for name in GIVEN if found.get(name) in (None, BEFORE[name])]


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Take the caller's variables out of this process, and so out of all that it starts; watch what it starts."""
    for name in set(os.environ) - set(clean_environ()) - {PROCESS}:
        del os.environ[name]
    sys.addaudithook(_audit)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail the test or the fixture that started Lightbox around ``own_environ``, even if it swallowed the exception."""
    report = yield
    if _around:
        report.outcome, report.longrepr = "failed", "\n".join(_around)
        _around.clear()
    return report


def pytest_unconfigure() -> None:
    """Remove the home of the programs."""
    if _home.cache_info().currsize:
        shutil.rmtree(_home(), ignore_errors=True)
