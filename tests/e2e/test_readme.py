"""The README's commands, run unchanged against a running stack."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from support import commands, photos
from support.isolation import own_environ
from support.stack import REPOSITORY, Stack

README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"```(bash|python|json)\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files in the README's commands."""
    Image.fromarray(photos.photo("flower.jpg")).save(tmp_path / "photo.jpg")
    shutil.copytree(REPOSITORY / "docs" / "samples", tmp_path / "docs" / "samples")
    (tmp_path / "container").symlink_to(REPOSITORY / "container")
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    return commands.output(command, env=own_environ(), cwd=folder)


def blocks(language: str, containing: str, stack: Stack) -> list[str]:
    found = [text for kind, text in BLOCKS if kind == language and containing in text]
    assert found
    return [text.replace("localhost:8080", f"127.0.0.1:{stack.port}") for text in found]


def test_curl_lines(stack: Stack, folder: Path) -> None:
    coffee, digit, rest = blocks("bash", "curl", stack)
    named, shown = (json.loads(text) for kind, text in BLOCKS if kind == "json")
    (items,), (found,) = (each["predictions"] for each in (named, json.loads(run(["bash", "-ec", coffee], folder))))
    assert [item["label"] for item in found] == [item["label"] for item in items]
    assert [item["score"] for item in found] == pytest.approx([item["score"] for item in items], abs=0.01)
    answered = json.loads(run(["bash", "-ec", digit], folder))
    assert answered["predictions"][0].index(max(answered["predictions"][0])) == 7
    assert answered["predictions"][0][7] == pytest.approx(shown["predictions"][0][7], abs=0.01)
    header = run(["bash", "-ec", rest], folder).partition("Server-Timing: ")[2].partition("\n")[0]
    assert "decode;dur=" in header


def test_boto3_lines(stack: Stack, folder: Path) -> None:
    (program,) = blocks("python", "boto3", stack)
    assert '"predictions":[[' in run([sys.executable, "-W", "ignore", "-c", program], folder)


def test_invoke_asks_and_shows_where_the_time_went(stack: Stack, folder: Path) -> None:
    (photo,) = re.findall(r"`lightbox invoke (photo\.jpg)`", README)
    command = [sys.executable, "-m", "lightbox", "invoke", "--url", stack.url, photo]
    said = run([*command, "--transport", "rest"], folder)
    assert "predictions" in said
    for stage in ("decode", "predict", "total"):
        assert stage in said
    done = commands.run([*command, "--model", "none"], env=own_environ(), cwd=folder)
    assert done.returncode == 1
    assert "there is no model named 'none'" in done.stderr


def test_make_targets_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
