"""The objects of one process that serve requests of every protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lightbox.base.request_context import Requests
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import Observer
from lightbox.core.pipeline import Pipeline
from lightbox.core.request import Middleware
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
