"""docs/tutorial.md: runs its steps 1 to 6 in order, unchanged, in a new folder."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from lightbox.base.settings_types import ScalingName
from lightbox.model.options import ModelOptions
from support import commands
from support.isolation import own_environ
from support.stack import REPOSITORY, Stack, free_port, running

PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text()
STEPS = {
    int(number): re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for number, text in re.findall(r"^## (\d)\. .*?\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
}

pytestmark = pytest.mark.timeout(3600)


def block(step: int, language: str, containing: str = "") -> str:
    """Return the step's only block in a language that contains a text."""
    found: str
    (found,) = [text for kind, text in STEPS[step] if kind == language and containing in text]
    return found


def run(command: str, folder: Path, port: int) -> str:
    """Run shell lines as a reader does, except for the port."""
    path = f"{folder}/.venv/bin:{os.environ['PATH']}"  # the effect of the page's "source"
    environ = own_environ() | {"SAGEMAKER_BIND_TO_PORT": str(port), "TF_CPP_MIN_LOG_LEVEL": "2", "PATH": path}
    shell = ["bash", "-ec", command.replace("localhost:8080", f"localhost:{port}")]
    return commands.output(shell, environ, folder, patience=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files that the steps use, and the model of step 1."""
    folder = tmp_path_factory.mktemp("tutorial")
    for name in (".venv", "docs"):
        (folder / name).symlink_to(REPOSITORY / name)
    shutil.copytree(REPOSITORY / "code", folder / "code")
    (folder / "train.py").write_text(block(1, "python"))
    run(block(1, "bash", "train.py"), folder, free_port())
    return folder


def answered(step: int, folder: Path, stack: Stack) -> Any:
    return json.loads(run(block(step, "bash", "curl"), folder, stack.port))["predictions"]


def test_the_page_has_six_steps() -> None:
    assert list(STEPS) == [1, 2, 3, 4, 5, 6]


def test_the_tree_is_what_the_export_writes(folder: Path) -> None:
    names = re.findall(r"^[ │]*[├└]── ([\w.-]+)", block(1, ""), re.MULTILINE)
    written = [path.name for path in (folder / "my_models").rglob("*")]
    assert sorted(names) == sorted(written)


def test_check_says_what_is_shown(folder: Path) -> None:
    # Which engine is faster depends on the machine.
    said, shown = (
        re.sub(r"(its engine for \w+): .*", r"\1", text)
        for text in (
            run(block(2, "bash"), folder, free_port()),
            block(2, "").replace("/home/you/lightbox", str(folder)),
        )
    )
    assert said.strip().endswith(shown.strip())


def test_the_server_answers_as_shown(folder: Path, tmp_path: Path) -> None:
    assert block(3, "bash") == "lightbox serve my_models\n"
    with running(folder / "my_models", tmp_path) as stack:
        (shown,) = json.loads(block(4, "json"))["predictions"]
        (row,) = answered(4, folder, stack)
    assert len(row) == len(shown) == 10
    assert row.index(max(row)) == shown.index(max(shown)) == 7
    assert row[7] == pytest.approx(shown[7], abs=0.01)


def test_class_names_are_answered_as_shown(folder: Path, tmp_path: Path) -> None:
    run(block(6, "bash", "labels"), folder, free_port())
    with running(folder / "my_models", tmp_path) as stack:
        (shown,) = json.loads(block(6, "json"))["predictions"]
        (row,) = answered(6, folder, stack)
    assert row[0] == shown[0] | {"score": pytest.approx(shown[0]["score"], abs=0.01)}
    assert [list(entry) for entry in row] == [list(entry) for entry in shown]


def test_the_table_has_every_scaling() -> None:
    rows = re.findall(r"^\| .* \| `(\{.*\})` \|$", PAGE, re.MULTILINE)
    assert {ModelOptions.model_validate_json(row).scaling for row in rows} | {"none"} == set(get_args(ScalingName))
