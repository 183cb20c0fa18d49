"""The Python versions that the Makefile accepts, and the errors for others."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support import commands
from support.stack import REPOSITORY

SCRIPT = REPOSITORY / "scripts" / "check_machine.sh"


def check(python: Path | str) -> tuple[int, str]:
    done = commands.run([SCRIPT, python])
    return done.returncode, done.stderr


def test_this_python_is_taken() -> None:
    assert check(sys.executable) == (0, "")


def test_another_python_is_refused_in_a_sentence(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.10.13 && exit\nexit 1\n')
    old.chmod(0o755)
    code, said = check(old)
    assert code == 1
    assert f"{old} is Python 3.10.13: install Python 3.11, 3.12 or 3.13, or name one" in said
    assert "python3.99 is missing: install Python 3.11, 3.12 or 3.13" in check("python3.99")[1]


@pytest.mark.extended
def test_a_virtual_environment_of_another_python_is_made_anew(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho Python 3.10.13\n")
    python.chmod(0o755)
    for kept in (False, True):
        (tmp_path / "venv" / "package").touch()
        subprocess.run([SCRIPT.with_name("make_venv.sh"), sys.executable, tmp_path / "venv"], check=True)
        assert python.is_symlink()
        assert (tmp_path / "venv" / "package").exists() is kept


def test_it_takes_what_the_package_does() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    least, below = re.findall(r"\((3, \d+)\)", SCRIPT.read_text())
    assert project["requires-python"] == f">={least.replace(', ', '.')},<{below.replace(', ', '.')}"


def test_a_start_with_a_virtual_environment_looks_for_no_python(tmp_path: Path) -> None:
    command = ["make", "--dry-run", "serve", f"VENV={tmp_path}"]
    assert "check_machine.sh" in commands.output(command, cwd=REPOSITORY)
    (tmp_path / ".ready").touch()
    assert "check_machine.sh" not in commands.output(command, cwd=REPOSITORY)
