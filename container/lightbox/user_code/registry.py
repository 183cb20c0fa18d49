"""The user's code of every model in this process, loaded once at start."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from lightbox.plan import PlannedModel
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.loader import load_functions
from lightbox.user_code.own import LightboxHandlers
from lightbox.user_code.places import find_inference

log = logging.getLogger("lightbox")

Handlers = AwsHandlers | LightboxHandlers

NONE = LightboxHandlers()
"""No user's code: the built-in handling does both halves."""


class UserCode:
    """Handlers by model; models that share an ``inference.py`` share one import of it."""

    def __init__(self) -> None:
        self._of_file: dict[Path, Handlers] = {}
        self._of_model: dict[str, Handlers] = {}

    def load(self, models: Iterable[PlannedModel]) -> None:
        """Import the code of models; raise UserCodeError for the first that cannot be used."""
        for model in models:
            file = find_inference(model.code_dirs)
            if file is None:
                continue
            if file not in self._of_file:
                self._of_file[file] = load_handlers(file)
            self._of_model[model.name] = self._of_file[file]

    def of(self, model: str) -> Handlers:
        """Return a model's handlers, NONE where it has no code."""
        return self._of_model.get(model, NONE)


def load_handlers(file: Path) -> Handlers:
    """Import one ``inference.py``; raise UserCodeError when it cannot be used."""
    functions = load_functions(file)
    log.info("loaded %s: %s", file, ", ".join(functions))
    if functions.keys() <= {"preprocess", "postprocess"}:
        return LightboxHandlers(**functions)
    return AwsHandlers(**functions)
