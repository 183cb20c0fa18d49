"""Which models can be asked for: those of the plan, or in multi-model mode those that are loaded now."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from lightbox.errors import BadRequest, ModelNotFound
from lightbox.plan import PlannedModel, ServingPlan


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


class PlannedModels:
    """The models of the plan, the same from start to stop."""

    def __init__(self, plan: ServingPlan) -> None:
        self._plan = plan

    def find(self, name: str | None) -> PlannedModel:
        """See Catalogue.find."""
        name = name or self._plan.default_model
        if name is None:
            raise BadRequest("the request names no model, and this endpoint has no default one")
        if name not in self._plan.models:
            known = ", ".join(sorted(self._plan.models))
            raise ModelNotFound(f"there is no model named {name!r}; this endpoint serves {known}")
        return self._plan.models[name]

    def using(self, name: str | None) -> AbstractContextManager[PlannedModel]:
        """See Catalogue.using."""
        return nullcontext(self.find(name))

    def names(self) -> list[str]:
        """See Catalogue.names."""
        return sorted(self._plan.models)
