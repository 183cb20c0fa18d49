"""The objects of one process that serve requests of every protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import Requests
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import Observer
from lightbox.core.model_names import ModelNames
from lightbox.core.pipeline import Pipeline
from lightbox.core.places import Places
from lightbox.core.request import Middleware
from lightbox.core.shares import Shares
from lightbox.model.plan import ServingPlan

if TYPE_CHECKING:
    from lightbox.core.operations import Description
    from lightbox.openapi.models import DescribedModel


@dataclass(frozen=True)
class Services:
    """Settings, plan and run directory of a start, and the objects that this process made from them.

    ``observers`` receive every response; ``requests`` are the requests of this process.
    """

    settings: Settings
    plan: ServingPlan
    run_dir: Path
    pipeline: Pipeline
    observers: Sequence[Observer]
    requests: Requests
    around: Sequence[Middleware] = ()
    """The middleware of SageMaker's routes, the outermost first."""
    operations: Callable[[Sequence[DescribedModel]], Sequence[Description]] = lambda models: ()
    """Returns the features' additions to the OpenAPI document."""
    refused_headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of disabled features, and the error text for each."""
    model_paths: Sequence[str] = ()
    """Patterns of the beginnings of paths that name a model."""
    places: Places | None = None
    """The places of the requests of models and keys in all processes; None if they are not counted."""

    def shares(self, at_once: int, most: int) -> Shares:
        """Return the models' shares of this many turns in this process, where ``most`` requests may be."""
        several, keeps_turns = self.plan.is_shared(self.settings), self.settings.threads_are_given
        return Shares(at_once, self.places, self._concurrency, several, self._counts_models, keeps_turns, most)

    def _concurrency(self, model: str) -> int | None:
        with suppress(LightboxError):  # it was unloaded just now
            return self.pipeline.catalogue.find(model).options.concurrency if model else None
        return None

    @property
    def _counts_models(self) -> bool:
        """Whether models have places. One without code, alone, needs none."""
        several = self.plan.is_shared(self.settings)
        return several or self.plan.concurrency > 0 or self.pipeline.may_have_handlers

    @property
    def model_names(self) -> ModelNames | None:
        """Finds the models of requests, None if they have no places."""
        return ModelNames(self.pipeline.catalogue, self.model_paths) if self._counts_models else None
