"""The user's code of every model in this process, loaded once at start."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from lightbox.errors import HandlerFailed
from lightbox.plan import PlannedModel
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.errors import UserCodeError
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
        self._loading = threading.Lock()
        self._of_file: dict[Path, Handlers] = {}
        self._of_model: dict[str, tuple[Path | None, Handlers]] = {}

    def load(self, models: Iterable[PlannedModel]) -> None:
        """Import the code of models; raise UserCodeError for the first that cannot be used."""
        for model in models:
            self._load(model)

    def of(self, model: PlannedModel) -> Handlers:
        """Return a model's handlers, NONE where it has no code; imports the code of a model seen for the first time.

        Raises HandlerFailed when that cannot be used.
        """
        known = self._of_model.get(model.name)
        if known is not None:
            return known[1]
        try:
            return self._load(model)
        except UserCodeError as error:
            raise HandlerFailed(str(error)) from error

    def forget(self, model: str) -> None:
        """Import a model's code anew when it is asked for again."""
        with self._loading:
            file, _ = self._of_model.pop(model, (None, NONE))
            if file is not None and all(file != other for other, _ in self._of_model.values()):
                self._of_file.pop(file, None)

    def _load(self, model: PlannedModel) -> Handlers:
        file, handlers = self.load_from(model.code_dirs)
        self._of_model[model.name] = file, handlers
        return handlers

    def load_from(self, code_dirs: Sequence[Path]) -> tuple[Path | None, Handlers]:
        """Import the first ``inference.py`` of ``code_dirs``, if there is one; raise UserCodeError if it is no use."""
        with self._loading:
            file = find_inference(code_dirs)
            if file is not None and file not in self._of_file:
                self._of_file[file] = load_handlers(file)
            return file, NONE if file is None else self._of_file[file]


def load_handlers(file: Path) -> Handlers:
    """Import one ``inference.py``; raise UserCodeError when it cannot be used."""
    functions = load_functions(file)
    log.info("loaded %s: %s", file, ", ".join(functions))
    if functions.keys() <= {"preprocess", "postprocess"}:
        return LightboxHandlers(**functions)
    return AwsHandlers(**functions)
