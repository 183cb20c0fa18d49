"""The models that requests can name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from lightbox.base.request_context import RequestContext
from lightbox.model.options import ModelOptions


class PlannedModel(BaseModel):
    """One model to serve: the places of its versions, and its options."""

    model_config = ConfigDict(frozen=True)

    name: str
    base_path: Path
    """Folder of its versions for the model servers."""
    versions_dir: Path | None = None
    """Folder in which new versions appear while it is served; None if none can appear."""
    options: ModelOptions
    names_images_only: bool = False
    """Whether only images get classes or objects by name, see ``ResolvedOptions.for_images_only``."""
    code_dirs: tuple[Path, ...] = ()
    """Folders that may hold its ``inference.py``, in this order."""


class Catalogue(Protocol):
    """Finds models by name."""

    def find(self, name: str | None) -> PlannedModel:
        """Return a model, the default one for None.

        Raises ModelNotFound, and BadRequest for None without a default model.
        """
        ...

    def using(self, name: str | None) -> AbstractContextManager[PlannedModel]:
        """Hold a model, as found by ``find``, during a request: it is not unloaded meanwhile."""
        ...

    def names(self) -> list[str]:
        """Return the names of all models."""
        ...

    def versions(self, name: str) -> Sequence[int]:
        """Return the versions that answer requests without a version, the best first.

        If there are none, the newest one of the model server answers.
        """
        ...

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call a listener with the name of each added or removed model, before ``find`` returns it."""
        ...

    @property
    def is_fixed(self) -> bool:
        """Whether the models stay the same."""
        ...

    def target(self, target: str, context: RequestContext, loads: bool) -> AbstractContextManager[str | None]:
        """Hold the model of X-Amzn-SageMaker-Target-Model, and yield its name.

        Yields None if models are fixed, where the header is ignored. With ``loads`` it is loaded if necessary. Raises
        as ``load``.
        """
        ...

    def of_target(self, target: str) -> str | None:
        """Return the name of the loaded model of such a header, "" without one; None if models are fixed."""
        return None

    def load(self, target: str, context: RequestContext) -> str:
        """Load a model from its place in the models directory, unless it is loaded, and return its name.

        Raises MethodNotAllowed if models are fixed, BadRequest, ModelNotFound, and as a load does.
        """
        ...

    def unload(self, name: str, context: RequestContext) -> None:
        """Unload a model, by its name in ``load`` or in the list. Raises as ``load``."""
        ...
