"""The user's code of all models in this process, imported once, and again after a reload of the model."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lightbox.base.errors import HandlerFailed, Unavailable
from lightbox.model.catalogue import PlannedModel
from lightbox.user_code.api_detection import forget_folder, load_functions
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.handlers import LightboxHandlers
from lightbox.user_code.paths import UserCodeError, find_inference

log = logging.getLogger("lightbox")

Handlers = AwsHandlers | LightboxHandlers

NONE = LightboxHandlers()
"""No user code: the built-in handling does everything."""

TURN_SECONDS = 30.0
"""Seconds that a request waits for the import of another model's code."""


class _Loaded(NamedTuple):
    code_dirs: tuple[Path, ...]
    file: Path | None
    handlers: Handlers


class UserCode:
    """Handlers by model; models that share an ``inference.py`` share one import of it."""

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._of_file: dict[Path, Handlers] = {}
        self._of_model: dict[str, _Loaded] = {}
        self._forgotten: deque[tuple[str, Path | None]] = deque()

    def load(self, models: Iterable[PlannedModel]) -> None:
        """Import the code of models; raise UserCodeError for the first unusable one."""
        for model in models:
            self._load(model)

    def of(self, model: PlannedModel) -> Handlers:
        """Return a model's handlers, NONE without code; import the code of a new model.

        Raises HandlerFailed for unusable code, Unavailable while another import takes too long.
        """
        known = self._of_model.get(model.name)
        if known is not None and known.code_dirs == model.code_dirs:
            return known.handlers
        try:
            return self._load(model)
        except UserCodeError as error:
            raise HandlerFailed(str(error)) from error

    def is_empty(self) -> bool:
        """Return whether no model has code."""
        return not self._of_file

    def uses(self, file: Path) -> bool:
        """Return whether an ``inference.py`` is imported for a model."""
        return any(loaded.file == file for loaded in list(self._of_model.values()))

    def forget(self, model: str) -> None:
        """Import a model's code again on its next request. Does not wait for an import in progress."""
        gone = self._of_model.pop(model, None)
        self._forgotten.append((model, gone.file if gone else None))
        self._tidy()

    def load_from(self, code_dirs: Sequence[Path]) -> tuple[Path | None, Handlers]:
        """Import the first ``inference.py`` of ``code_dirs``, if there is one; raise UserCodeError if unusable."""
        with self._turn():
            return self._import(code_dirs)

    def _load(self, model: PlannedModel) -> Handlers:
        with self._turn():
            file, handlers = self._import(model.code_dirs)
            self._of_model[model.name] = _Loaded(model.code_dirs, file, handlers)
            return handlers

    def _import(self, code_dirs: Sequence[Path]) -> tuple[Path | None, Handlers]:
        file = find_inference(code_dirs)
        if file is None:
            return None, NONE
        if file not in self._of_file:
            try:
                self._of_file[file] = load_handlers(file)
            except UserCodeError:
                forget_folder(file.parent)  # its modules may be fixed before the next try
                raise
        return file, self._of_file[file]

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Import one at a time: sys.path is shared, so a second import would find the first one's modules."""
        if not self._loading.acquire(timeout=TURN_SECONDS):
            raise Unavailable("the code of another model is being imported; try again")
        try:
            self._drop_forgotten()
            yield
        finally:
            self._loading.release()
            self._tidy()

    def _tidy(self) -> None:
        """Unload forgotten code; during an import, that thread does it afterwards."""
        while self._forgotten and self._loading.acquire(blocking=False):
            try:
                self._drop_forgotten()
            finally:
                self._loading.release()

    def _drop_forgotten(self) -> None:
        while self._forgotten:
            model, file = self._forgotten.popleft()
            late = self._of_model.pop(model, None)  # its import began before ``forget``
            for gone in {file, late.file if late else None}:
                if gone in self._of_file and not self.uses(gone):
                    del self._of_file[gone]
                    forget_folder(gone.parent)


def load_handlers(file: Path) -> Handlers:
    """Import one ``inference.py``; raise UserCodeError if it cannot be used."""
    functions = load_functions(file)
    log.debug("loaded %s: %s", file, ", ".join(functions))  # the trial logs it for all workers
    if functions.keys() <= {"preprocess", "postprocess"}:
        return LightboxHandlers(**functions)
    return AwsHandlers(**functions)
