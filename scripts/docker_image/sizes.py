"""Layers and their sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docker_image.docker import Docker
from lightbox.harness import tables

NAMES = {
    "COPY /model-server": "tensorflow_model_server",
    "COPY /packages": "Python packages",
    "COPY /application": "Lightbox",
    "RUN": "nginx, tini and what they depend on",
}


@dataclass(frozen=True)
class Layer:
    """A layer of an image: what it holds and its size in bytes."""

    name: str
    size: int


def layers(docker: Docker, image: str) -> list[Layer]:
    """Return an image's layers, the base image's as one, the lowest first."""
    history = docker.run("history", "--human=false", "--no-trunc", "--format={{.Size}}\t{{.CreatedBy}}", image)
    entries = [(int(size), command) for size, _, command in (line.partition("\t") for line in history.splitlines())]
    # History is newest first; all that our Dockerfile adds carries one of its names or is empty.
    ours = [Layer(name, size) for size, command in entries if (name := _name(command))]
    base = sum(size for size, _ in entries) - sum(layer.size for layer in ours)
    return [Layer("base image", base), *reversed(ours)]


def _name(command: str) -> str | None:
    plain = re.sub(r"^RUN \|\d+ .*?(/bin/sh -c)", r"RUN \1", command)
    if plain.startswith("RUN") and "nginx" not in plain:
        return None
    return next((name for start, name in NAMES.items() if plain.startswith(start)), None)


def all_but_the_model_server(docker: Docker, image: str) -> int:
    """Return the bytes of an image without the layer of tensorflow_model_server."""
    return sum(layer.size for layer in layers(docker, image) if layer.name != NAMES["COPY /model-server"])


def table(docker: Docker, image: str) -> str:
    """Return the layers and their sizes as a table in Markdown."""
    found = layers(docker, image)
    rows = [*found, Layer("all", sum(layer.size for layer in found))]
    if any(layer.name == NAMES["COPY /model-server"] for layer in found):
        rows.append(Layer("all but the model server", all_but_the_model_server(docker, image)))
    return "\n".join(tables.table(("layer", "MB"), [(row.name, f"{row.size / 1e6:.1f}") for row in rows], "lr"))
