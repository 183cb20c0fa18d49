"""The models that a start finds, and where their code may lie."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lightbox.core.settings import Settings
from lightbox.model.layout import ModelOnDisk, choose_default, find_models


def plan_models(settings: Settings) -> tuple[dict[str, ModelOnDisk], str]:
    """Return the models on disk by name, and the default one's name; raise ModelLayoutError."""
    models = find_models(settings.model_dir)
    return {model.name: model for model in models}, choose_default(models, settings.default_model)


def shared_code_dirs(settings: Settings) -> tuple[Path, ...]:
    """Return where code for all models may lie; SageMaker has a folder of its own for it in multi-model mode."""
    beside_models = settings.model_dir / "code"
    return (beside_models,) if settings.has_fixed_models else (settings.code_dir, beside_models)


def code_dirs(model: ModelOnDisk, shared: Iterable[Path]) -> list[Path]:
    """Return where a model's user code may lie: in its own folder first, then in those for all models."""
    return list(dict.fromkeys([model.base_path / "code", *shared]))
