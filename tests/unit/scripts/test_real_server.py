"""How the tests find and start the program under test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from real_server.program import NAME, RECORD, program, version
from support import commands

ECHO = '#!/bin/sh\n{}\necho "$(basename $0)" "$@"\n'


def put(folder: Path, name: str, first: str = "") -> None:
    """Put a program into a folder; it prints its name and arguments."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(ECHO.format(first))
    (folder / name).chmod(0o755)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path / 'found'}{os.pathsep}/usr/bin:/bin")
    (tmp_path / "found").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "found"


def said(path: Path) -> str:
    return commands.output([path, "--port=1"]).strip()


def test_the_binary_on_the_path_comes_first(found: Path) -> None:
    put(found, NAME)
    put(found, "docker")
    with program(None, "image", found.parent / "work") as path:
        assert path.name == NAME
        assert said(path) == f"{NAME} --port=1"
        assert version(path) == f"{NAME} --version"


def test_docker_sees_the_same_files_and_leaves_nothing(found: Path) -> None:
    log = found.parent / "log"
    put(found, "docker", f'echo "$@" >> {log}; [ "$1" != ps ] || {{ echo left-over; exit; }}')
    work = found.parent / "work"
    with program(None, "tensorflow/serving:1", work) as path:
        words = said(path).split()
    assert words[:4] == ["docker", "run", "--rm", "--init"]
    assert words[-4:] == ["--entrypoint", f"/usr/bin/{NAME}", "tensorflow/serving:1", "--port=1"]
    assert f"--volume={work}:{work}" in words
    volumes = [word.split("=")[1].split(":") for word in words if word.startswith("--volume=")]
    assert any(RECORD.is_relative_to(source) and source == target for source, target, *_ in volumes)
    assert log.read_text().splitlines()[-1] == "rm --force left-over"
