"""The models that requests can name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from lightbox.core.request_context import RequestContext
from lightbox.model.options import ModelOptions


class PlannedModel(BaseModel):
    """One model to serve: where its versions are and what it asks of Lightbox."""

    model_config = ConfigDict(frozen=True)

    name: str
    base_path: Path
    """Where model servers look for its versions."""
    versions_dir: Path | None = None
    """Where its versions are copied to while it is served; None where none can come."""
    options: ModelOptions
    code_dirs: tuple[Path, ...] = ()
    """Folders where its ``inference.py`` is looked for, in this order."""


class Catalogue(Protocol):
    """Finds models by name."""

    def find(self, name: str | None) -> PlannedModel:
        """Return a model, the default one for None.

        Raises ModelNotFound, and BadRequest for None where there is no default.
        """
        ...

    def using(self, name: str | None) -> AbstractContextManager[PlannedModel]:
        """Hold a model, found as by ``find``, while it is invoked: it is not unloaded meanwhile."""
        ...

    def names(self) -> list[str]:
        """Return the names of all models."""
        ...

    def versions(self, name: str) -> Sequence[int]:
        """Return the versions that answer requests which name none, the best first.

        Where there are none, it is the newest that the model server has.
        """
        ...

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have a listener hear the name of each model that comes or goes, before it can be found."""
        ...

    @property
    def is_fixed(self) -> bool:
        """Whether no model comes or goes."""
        ...

    def target(self, target: str, context: RequestContext, loads: bool) -> str | None:
        """Return the model that X-Amzn-SageMaker-Target-Model names; None where models are fixed and the header is not
        read.

        With ``loads`` it is loaded if it was not. Raises as ``load``.
        """
        ...

    def load(self, target: str, context: RequestContext) -> str:
        """Load a model from its place in the models directory, if it is not loaded, and return its name.

        Raises MethodNotAllowed where models are fixed, BadRequest, ModelNotFound, and what a load raises.
        """
        ...

    def unload(self, name: str, context: RequestContext) -> None:
        """Stop serving a model, named as ``load`` names it or as it is listed. Raises as ``load``."""
        ...
