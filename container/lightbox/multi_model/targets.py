"""TargetModel, as boto3 names it: a folder or an archive of the models directory, loaded on first use."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress

from lightbox.errors import AlreadyLoaded
from lightbox.model_layout import LONGEST_NAME
from lightbox.multi_model.loader import ModelLoader
from lightbox.multi_model.places import Source
from lightbox.multi_model.state import LoadedModels
from lightbox.telemetry.clock import RequestClock


class Targets:
    """Makes sure that a target is loaded before it is invoked, as SageMaker does in front of the container."""

    def __init__(self, loader: ModelLoader, state: LoadedModels) -> None:
        self._loader = loader
        self._state = state

    def name_of(self, target: str) -> str:
        """Return the name of a target's model, loaded or not: the target itself where one is loaded as that."""
        return target if target in self._state.all() else model_name(target)

    def load(self, target: str, clock: RequestClock, field: str = "TargetModel") -> str:
        """Return the name of the model for a target, loaded if it was not; ``field`` is what the caller calls it.

        Raises BadRequest for a target outside of the models directory, ModelNotFound, and as ModelLoader.load.
        """
        name = self.name_of(target)
        if name not in self._state.all():
            with suppress(AlreadyLoaded):  # by another request, a moment ago
                self._loader.load(name, Source(target, field, may_be_archive=True), clock)
        return name


def model_name(target: str) -> str:
    """Return the name that a target's model has here: its own, where that can be one.

    Else what cannot be in a name is replaced, and a hash tells ``a/b`` from ``a-b``.
    """
    whole = target.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", whole)
    return name if name == whole else f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
