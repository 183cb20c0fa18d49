"""Checks an image against declarations in container-structure-test's format: metadata and commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from docker_image.docker import Engine

COMMON = Path(__file__).with_name("structure.yaml")
WITHOUT_TENSORFLOW = COMMON.with_name("without_tensorflow.yaml")
FILES = {"lightbox": (COMMON, WITHOUT_TENSORFLOW), "embedded": (COMMON,), "openvino": (COMMON, WITHOUT_TENSORFLOW)}
"""Checks of the image of each stage of the Dockerfile."""


def problems(engine: Engine, image: str, stage: str) -> list[str]:
    """Return a sentence for each declaration of a stage that an image violates; raise ProgramFailed."""
    found = []
    for file in FILES[stage]:
        declared = yaml.safe_load(file.read_text())
        found += [*_metadata(engine, image, declared.get("metadataTest", {}))]
        found += [why for test in declared["commandTests"] for why in _command(engine, image, test)]
    return found


def _metadata(engine: Engine, image: str, declared: Mapping[str, Any]) -> Iterator[str]:
    config = json.loads(engine.inspect("{{json .Config}}", image))
    ports = sorted(port.partition("/")[0] for port in config.get("ExposedPorts") or ())
    found = {name: config[name.title()] for name in ("user", "entrypoint", "cmd")} | {"exposedPorts": ports}
    for name, value in found.items():
        if value != declared.get(name, value):
            yield f"{name}: expected {declared[name]}, got {value}"
    for label in declared.get("labels", ()):
        value, pattern = config["Labels"].get(label["key"]), label["value"]
        if value is None or not re.fullmatch(pattern if label.get("isRegex") else re.escape(pattern), value):
            yield f"label {label['key']}: expected {pattern}, got {value}"


def _command(engine: Engine, image: str, test: Mapping[str, Any]) -> Iterator[str]:
    output = engine.run("run", "--rm", f"--entrypoint={test['command']}", image, *test["args"])
    for key, wanted in (("expectedOutput", True), ("excludedOutput", False)):
        for pattern in test.get(key, ()):
            if bool(re.search(pattern, output, re.MULTILINE)) != wanted:
                yield f"{test['name']}: expected {'' if wanted else 'nothing like '}{pattern}, got {output!r}"
