"""The models that there are now, and the file in which a model server reads them when it starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lightbox.multi_model.state import LoadedModels
from lightbox.plan import ServingPlan
from lightbox.processes.commands import MODEL_CONFIG, model_config
from lightbox.telemetry.logs import log


class ServedModels:
    """Those of the plan, or what has been loaded in multi-model mode."""

    def __init__(self, plan: ServingPlan, run_dir: Path, multi_model: bool) -> None:
        self._plan = plan
        self._loaded = LoadedModels(run_dir) if multi_model else None
        self._file = run_dir / MODEL_CONFIG

    def names(self) -> Iterable[str]:
        """Return the models' names."""
        return self._plan.models if self._loaded is None else self._loaded.all()

    def write(self) -> None:
        """Write the file for a server that is about to start: it would wait in vain for what is not on the disk."""
        models = list(self._plan.models.values())
        if self._loaded is not None:
            for entry in self._loaded.removed():
                log(f"the model {entry.model.name!r} is not loaded any more: its folder was removed")
                self._loaded.update(entry.model.name, leaving=entry)
            models = [entry.model for entry in self._loaded.all().values()]
        new = self._file.with_suffix(".new")
        new.write_text(model_config(models))
        new.replace(self._file)
