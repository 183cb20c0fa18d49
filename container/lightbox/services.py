"""What serves requests in one process, whatever their protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightbox.feature import Feature
from lightbox.multi_model.loader import ModelLoader, TargetModels
from lightbox.multi_model.state import LoadedModels
from lightbox.pipeline import Pipeline
from lightbox.plan import ModelServerAddress
from lightbox.protocols.edge import Count, uncounted
from lightbox.settings import Settings
from lightbox.telemetry.logs import Observer


@dataclass(frozen=True)
class Services:
    """Settings, pipeline and what is beside it; some are there in multi-model mode only."""

    settings: Settings
    pipeline: Pipeline
    observers: Sequence[Observer] = ()
    features: Sequence[Feature] = ()
    """Those that the settings turn on."""
    targets: TargetModels | None = None
    loader: ModelLoader | None = None
    state: LoadedModels | None = None
    run_dir: Path | None = None
    model_servers: Sequence[ModelServerAddress] = ()
    count: Count = uncounted
