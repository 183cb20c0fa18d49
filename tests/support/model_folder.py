"""A model's base path with changing versions, and the embedded server that serves it."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.model_server import MODELS, ModelServer

NO_RETRIES = "--max_num_load_retries=0"
CORRUPT = "Read less bytes than requested"
"""The runtime's error for a version that Folder.add_corrupt made."""


class Folder:
    """A base path with changing versions; even versions return 3.5 for 1.0, odd ones 2.5."""

    def __init__(self, path: Path, *versions: int) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        for version in versions:
            self.add(version)

    def add(self, version: int, name: str = "") -> None:
        """Add a version atomically."""
        parts = self.path.parent / "parts"
        shutil.copytree(MODELS / "half_plus_two" / ("1" if version % 2 else "2"), parts)
        parts.rename(self.path / (name or str(version)))

    def add_corrupt(self, version: int) -> None:
        """Add a version with a corrupt graph."""
        parts = self.path.parent / "parts"
        parts.mkdir()
        (parts / "saved_model.pb").write_bytes(b"garbage")
        parts.rename(self.path / str(version))

    def remove(self, version: int) -> None:
        """Remove a version."""
        shutil.rmtree(self.path / str(version))


def serve(folder: Folder, tmp_path: Path, *flags: str) -> ModelServer:
    """Serve a folder as the model x."""
    return ModelServer(tmp_path / "server", "--model_name=x", f"--model_base_path={folder.path}", NO_RETRIES, *flags)


def answer(server: ModelServer, model: str = "x") -> float:
    """Return the model's output for 1.0."""
    status, body = server.predict(model, instances=[1.0])
    assert status == 200, body
    return float(body["predictions"][0])
