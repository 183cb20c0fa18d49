"""The files that GitHub reads in .github, against its schemas and zizmor."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import commands
from support.stack import REPOSITORY

WORKFLOWS = REPOSITORY / ".github" / "workflows"
DEPENDABOT = REPOSITORY / ".github" / "dependabot.yml"


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
    return content


@pytest.mark.parametrize(
    ("schema", "files"), [("github-workflows", sorted(WORKFLOWS.iterdir())), ("dependabot", [DEPENDABOT])]
)
def test_github_accepts(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    commands.output(command)


def test_dependabot_finds_the_files_it_updates() -> None:
    updates = yaml.safe_load(DEPENDABOT.read_text())["updates"]
    files = {"pip": "pyproject.toml", "npm": "package-lock.json", "docker": "Dockerfile", "github-actions": ".github"}
    assert {update["package-ecosystem"] for update in updates} == files.keys()
    for update in updates:
        file = REPOSITORY / update["directory"].strip("/") / files[update["package-ecosystem"]]
        assert file.exists(), file


def zizmor(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", str(folder)]
    return commands.run(command)


def test_zizmor_finds_no_hole() -> None:
    done = zizmor(REPOSITORY / ".github")
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_job_that_publishes_may_write_and_forks_have_none() -> None:
    ci, jobs = load("ci"), load("release")["jobs"]
    assert (ci["permissions"], load("release")["permissions"]) == ({"contents": "read"}, {})
    assert "secrets." not in (WORKFLOWS / "ci.yml").read_text()
    assert not any("permissions" in job for job in ci["jobs"].values())
    writes = {name for name, job in jobs.items() if "write" in job["permissions"].values()}
    assert writes == {"publish"}
    assert "needs" not in jobs["test"]
    assert "fork" in jobs["test"]["if"]
    assert (jobs["make"]["needs"], jobs["publish"]["needs"]) == ("test", "make")


def test_ci_runs_what_ci_runs_here() -> None:
    job = load("ci")["jobs"]["test"]
    (tests,) = [step for step in job["steps"] if step.get("run") == ".ci/run"]
    assert tests["env"]["PYTHON"] == "python${{ matrix.python }}"
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert job["container"]["image"] == "python:${{ matrix.python }}-bookworm"


@pytest.mark.parametrize(("workflow", "job"), [("ci", "quick"), ("ci", "image"), ("release", "make")])
def test_targets_of_make_are_there(workflow: str, job: str) -> None:
    targets = [
        step["run"].split()[1] for step in load(workflow)["jobs"][job]["steps"] if "make " in step.get("run", "")
    ]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE), target
