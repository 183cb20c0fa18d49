"""The document of a run: the figures and the facts needed to judge and repeat them."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmark import machine
from benchmark.servers import REPOSITORY

Document = dict[str, Any]
_NUMBERS = re.compile(r"\[[-0-9.,\s]+\]")
"""A list of numbers, which is easier to read in one line."""


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


RUN = ("measured", "command", "machine", "versions")
"""How the scenarios of a document were measured."""


def merge(new: Document, earlier: Document) -> Document:
    """Return ``new`` plus the scenarios that only ``earlier`` has, each labelled with its run.

    Raises ValueError if the scales differ: figures of a quick run must not be quoted.
    """
    if new["scale"] != earlier["scale"]:
        raise ValueError(f"the results that are there are of a {earlier['scale']} run, these of a {new['scale']} one")
    run = {name: earlier[name] for name in RUN}
    found = {each["key"]: {"run": run} | each for each in earlier["scenarios"]}
    fresh = {each["key"]: each for each in new["scenarios"]}
    order = list(dict.fromkeys([*found, *fresh]))
    return new | {"scenarios": [fresh.get(key) or found[key] for key in order]}


def write(document: Document, path: Path) -> None:
    """Write the document as indented JSON, readable and diffable."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.write_text(_NUMBERS.sub(lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n")


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


def scenario(document: Document, key: str) -> dict[str, Any] | None:
    """Return a scenario's result, None if the run lacks it."""
    return next((found for found in document["scenarios"] if found["key"] == key), None)


def experiments(document: Document, scenario_key: str, key: str) -> list[dict[str, Any]]:
    """Return a scenario's experiments by key: one, or the points of a sweep."""
    found = scenario(document, scenario_key)
    return [experiment for experiment in found["experiments"] if experiment["key"] == key] if found else []


def variant(document: Document, scenario_key: str, key: str, name: str) -> dict[str, Any]:
    """Return a variant's figures in the first experiment with a key; empty if there are none."""
    for experiment in experiments(document, scenario_key, key):
        for found in experiment["variants"]:
            if found["name"] == name:
                return dict(found)
    return {}
