"""Layers and their sizes."""

from __future__ import annotations

from docker_image.docker import Engine
from lightbox.tools.harness import tables

MODEL_SERVER = "tensorflow_model_server"
LAYERS = {
    "COPY /model-server /": MODEL_SERVER,
    "COPY /packages /": "Python packages",
    "COPY /application /": "Lightbox",
    "install -y --no-install-recommends nginx-light": "nginx, tini and what they depend on",
}
"""Contents of the layer of an instruction that has these words."""
LARGEST = {"lightbox": 350e6, "openvino": 400e6}
"""Bytes that an image may have, by the Dockerfile's stage; the model server's binary aside."""


def layers(engine: Engine, image: str) -> dict[str, int]:
    """Return the bytes of an image's layers by content, lowest first; the base image counts as one layer."""
    history = engine.run("history", "--human=false", "--no-trunc", "--format={{.Size}}\t{{.CreatedBy}}", image)
    found = {"base image": 0}
    for line in reversed(history.splitlines()):
        size, _, command = line.partition("\t")
        name = next((name for words, name in LAYERS.items() if words in command), "base image")
        found[name] = found.get(name, 0) + int(size)
    return found


def without_the_model_server(sizes: dict[str, int]) -> int:
    """Return the bytes of all layers except that of tensorflow_model_server."""
    return sum(size for name, size in sizes.items() if name != MODEL_SERVER)


def table(sizes: dict[str, int]) -> str:
    """Return a Markdown table of the layers and their sizes."""
    rows = {**sizes, "all": sum(sizes.values())}
    if MODEL_SERVER in sizes:
        rows["all but the model server"] = without_the_model_server(sizes)
    return "\n".join(tables.table(("layer", "MB"), [(name, f"{size / 1e6:.1f}") for name, size in rows.items()], "lr"))
