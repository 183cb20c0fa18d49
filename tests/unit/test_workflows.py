"""The workflows in .github against GitHub's schema and zizmor, and the release's steps with fake programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import release
from support.patience import PATIENCE
from support.stack import REPOSITORY

WORKFLOWS = REPOSITORY / ".github" / "workflows"
PROGRAM = """#!/bin/bash
echo "$(basename "$0") $*" >> calls
case "$1 $2 $3" in
  "load --quiet --input") echo "Loaded image: lightbox:$(basename "$4" .tar | sed 's/^lightbox-//')" ;;
  "push --quiet "*) echo "$3" ;;
  "buildx imagetools inspect") echo "sha256:of-${4##*:}" ;;
  "push chart/"*) echo "Digest: sha256:of-chart" ;;
esac
"""
"""Says what docker and helm say, and writes down how it was called; there is no registry to push to."""


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
    return content


def steps(job: str, name: str = "release") -> dict[str, dict[str, Any]]:
    """Return a job's steps by name, or by the action or command of a step without a name."""
    found = load(name)["jobs"][job]["steps"]
    return {step.get("name") or step.get("uses") or step["run"]: step for step in found}


def run_step(named: str, folder: Path) -> list[str]:
    """Run a step of the publish job in a folder with fake programs; return their calls."""
    for program in ("docker", "helm", "cosign", "gh"):
        (folder / "bin" / program).parent.mkdir(exist_ok=True)
        (folder / "bin" / program).write_text(PROGRAM)
        (folder / "bin" / program).chmod(0o755)
    environ = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "REGISTRY": "ghcr.io/us", "GITHUB_REF_NAME": "v1.2.3"}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps("publish")[named]["run"]]
    done = subprocess.run(shell, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = folder / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_github_accepts_the_workflows() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    found = sorted(map(str, WORKFLOWS.iterdir()))
    assert len(found) == 2
    done = subprocess.run([*command, *found], check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def zizmor(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", str(folder)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


def test_zizmor_finds_no_hole() -> None:
    done = zizmor(REPOSITORY / ".github")
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_would_find_one(tmp_path: Path) -> None:
    text = (WORKFLOWS / "ci.yml").read_text().replace("  pull_request:\n", "  pull_request_target:\n")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yml").write_text(text)
    done = zizmor(tmp_path / ".github")
    assert done.returncode != 0
    assert "dangerous-triggers" in done.stdout


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


def test_every_action_has_a_version() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS.iterdir())
    used = set(re.findall(r"uses: (\S+)", text)) - {"./.github/workflows/ci.yml"}
    assert len(used) > 5
    assert {
        action for action in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+(\.\d+\.\d+)?|[0-9a-f]{40})", action)
    } == set()


def test_ci_runs_what_ci_runs_here() -> None:
    job = load("ci")["jobs"]["test"]
    (tests,) = [step for step in job["steps"] if step.get("run") == ".ci/run"]
    assert tests["env"]["PYTHON"] == "python${{ matrix.python }}"
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert job["container"]["image"] == "python:${{ matrix.python }}-bookworm"


@pytest.mark.parametrize(("workflow", "job"), [("ci", "image"), ("release", "make")])
def test_targets_of_make_are_there(workflow: str, job: str) -> None:
    targets = [
        step["run"].split()[1] for step in load(workflow)["jobs"][job]["steps"] if "make " in step.get("run", "")
    ]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE), target


def test_the_images_of_a_stage_are_joined_and_what_callers_name_is_signed(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for stage, architecture in release.IMAGES:
        (tmp_path / "files" / f"lightbox-1.2.3-{stage}-{architecture}.tar").touch()
    calls = run_step("Push the images, join those of a stage, sign what callers name", tmp_path)
    image = "ghcr.io/us/lightbox"
    pushed = {call.split()[-1] for call in calls if call.startswith("docker push")}
    assert pushed == {f"{image}:1.2.3-{stage}-{architecture}" for stage, architecture in release.IMAGES}
    joined = [call.split()[5:] for call in calls if call.startswith("docker buildx imagetools create")]
    assert joined == [
        [f"{image}:1.2.3-embedded", f"{image}:1.2.3-embedded-amd64", f"{image}:1.2.3-embedded-arm64"],
        [f"{image}:1.2.3", f"{image}:1.2.3-lightbox-amd64"],
        [f"{image}:1.2.3-openvino", f"{image}:1.2.3-openvino-amd64", f"{image}:1.2.3-openvino-arm64"],
    ]
    signed = [call for call in calls if call.startswith("cosign")]
    assert signed == [
        f"cosign sign --yes --recursive {image}@sha256:of-{name}"
        for name in ("1.2.3-embedded", "1.2.3", "1.2.3-openvino")
    ]
    assert not list((tmp_path / "files").iterdir()), "images are in the registry, not among the release's files"


def test_the_chart_is_pushed_and_signed(tmp_path: Path) -> None:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "lightbox-1.2.3.tgz").touch()
    assert run_step("Push the chart and sign it", tmp_path) == [
        "helm package deploy/helm/lightbox --destination chart",
        "helm push chart/lightbox-1.2.3.tgz oci://ghcr.io/us/charts",
        "cosign sign --yes ghcr.io/us/charts/lightbox@sha256:of-chart",
    ]


def test_the_release_has_sums_of_all_its_files_and_the_notes(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    image = files / "lightbox-1.2.3-embedded-amd64.tar"
    for name in (
        "lightbox-1.2.3-notes.md",
        "lightbox-1.2.3-embedded-amd64.cdx.json",
        "lightbox-1.2.3.tar.gz",
        image.name,
    ):
        (files / name).write_text(name)
    release.write_sums(files)
    image.unlink()
    run_step("Take the images, which are in the registry now, out of the sums", tmp_path)
    check = ["sha256sum", "--check", "--strict", release.SUMS]
    done = subprocess.run(check, cwd=files, check=True, capture_output=True, text=True, timeout=PATIENCE)
    assert len(done.stdout.splitlines()) == 3
    (call,) = run_step("Make the release", tmp_path)
    notes = "files/lightbox-1.2.3-notes.md"
    assert call.startswith(f"gh release create v1.2.3 --verify-tag --title Lightbox 1.2.3 --notes-file {notes} ")
    attached = {word for word in call.split() if word.startswith("files/")}
    assert attached == {f"files/{path.name}" for path in files.iterdir()}
