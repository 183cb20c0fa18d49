"""The results as pages."""
from __future__ import annotations
from pathlib import Path
from typing import Any
def write(document: dict[str, Any], folder: Path) -> None:
    return
