"""The model server of a soak, as settings of a stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from real_server.program import NAME, program

VARIABLE = "LIGHTBOX_MODEL_SERVER"
Settings = tuple[tuple[str, str], ...]


@contextmanager
def model_servers(folder: Path) -> Iterator[tuple[Settings, Settings]]:
    """Give the model server of fixed models, and of those that come and go.

    Both are the real one, on PATH, where LIGHTBOX_MODEL_SERVER names it. Else the first is the embedded server, and the
    second is the embedded server in the real one's place, which blocks where that blocks. Raises NoServer.
    """
    is_real = os.environ.get(VARIABLE) == NAME
    with program("binary" if is_real else "embedded", "", folder) as path:
        in_its_place = (VARIABLE, NAME), ("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        yield in_its_place if is_real else ((VARIABLE, "embedded"),), in_its_place
