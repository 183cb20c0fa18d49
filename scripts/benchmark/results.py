"""The document of a run: the figures and the facts needed to judge and repeat them."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmark import machine
from benchmark.servers import REPOSITORY

Document = dict[str, Any]


def fresh_folder(out: Path) -> Path:
    """Return an empty folder for a run's logs: beside its results, or in build/ if the results are in docs/."""
    published = out.resolve().is_relative_to(REPOSITORY / "docs")
    folder = (REPOSITORY / "build" if published else out.parent) / "benchmark_run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def new_document(scale: str, arguments: list[str]) -> Document:
    """Return the document before the first scenario, with the load of the machine."""
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": scale,
        "command": " ".join(["python -m benchmark", *arguments]),
        "machine": machine.machine(),
        "versions": machine.versions(),
        "scenarios": [],
    }


def write(document: Document, path: Path) -> None:
    """Write the document as indented JSON, readable and diffable."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> Document:
    """Read a document written by ``write``."""
    document: Document = json.loads(path.read_text())
    return document


def all_answered(document: Document) -> bool:
    """Return whether every variant of every experiment got responses without errors.

    An open loop can exceed the capacity of a slow machine: there a 503 response is correct.
    """
    return all(
        variant["answers"] and variant["errors"] == (variant["refused"] if experiment["load"]["rate"] else 0)
        for found in document["scenarios"]
        for experiment in found["experiments"]
        for variant in experiment["variants"]
    )


def experiments(document: Document, scenario: str, key: str) -> list[dict[str, Any]]:
    """Return a scenario's experiments by key: one, the points of a sweep, or none that was measured."""
    found = [each for each in document["scenarios"] if each["key"] == scenario]
    return [experiment for each in found for experiment in each["experiments"] if experiment["key"] == key]
