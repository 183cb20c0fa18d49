"""Hides the packages that HIDDEN_PACKAGES names from all Python processes that have this folder in PYTHONPATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

HIDDEN = os.environ.get("HIDDEN_PACKAGES", "").split()


class Hiding(PathFinder):
    """Finds installed packages, except for the hidden ones."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, None if it is missing."""
        return None if fullname.partition(".")[0] in HIDDEN else super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
