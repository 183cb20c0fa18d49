"""The notebook runs from top to bottom, and the committed one shows the output of a real run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from benchmark import models
from lightbox.tools.model_zoo import folder as layout
from support.isolation import own_environ
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack

NOTEBOOK = REPOSITORY / "scripts" / "latency_comparison.ipynb"

pytestmark = pytest.mark.timeout(3600)


def outputs(notebook: Any, kind: str) -> list[Any]:
    """Return the outputs of a media type."""
    found = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output["data"][kind] for output in found if kind in output.get("data", {})]


def table_rows(notebook: Any) -> list[str]:
    return [line for text in outputs(notebook, "text/markdown") for line in text.splitlines() if " %" in line]


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Any]:
    """Return a function that runs the notebook with few calls and returns it."""
    for name in ("ENDPOINT_NAME", "ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (own_environ() | {"CALLS": "2"}).items():
        monkeypatch.setenv(name, value)
    # The kernel's connection files and sockets.
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))

    def run() -> Any:
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
        NotebookClient(notebook, timeout=None, startup_timeout=round(PATIENCE), resources=resources).execute()
        return notebook

    return run


def give_detector(detector: Path) -> None:
    """Give the benchmark the detector of other tests: to make another takes a minute."""
    folder = models.MODELS / "classifier_and_detector" / detector.name
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.copytree(detector, partial, dirs_exist_ok=True)
        settings = json.loads((partial / layout.SETTINGS).read_text())
        (partial / layout.SETTINGS).write_text(json.dumps(settings | {"outputs": models.DETECTIONS}))
        partial.rename(folder)


def test_it_runs_from_top_to_bottom(execute: Callable[[], Any], detector: Path) -> None:
    give_detector(detector)
    notebook = execute()
    assert len(table_rows(notebook)) == 6
    assert len(outputs(notebook, "image/png")) == 2
    assert len(outputs(notebook, "image/jpeg")) == 1


def test_what_an_endpoint_does_not_have_is_left_out(
    execute: Callable[[], Any], stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDPOINT_URL", stack.url)
    notebook = execute()
    assert len(table_rows(notebook)) == 3
    assert len(outputs(notebook, "image/png")) == 1
    (said,) = [text for text in outputs(notebook, "text/markdown") if "efficientdet_d1" in text]
    assert "efficientdet_d1 is left out: " in said and "there is no model named" in said


def test_the_one_in_the_repository_was_run() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert len(table_rows(notebook)) == 6
    assert "100 calls of each transport" in outputs(notebook, "text/markdown")[0]
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
