"""The models that there are now, and the file in which a model server reads them when it starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lightbox.machine.shared_files import replace_file
from lightbox.model.catalogue import PlannedModel
from lightbox.model.plan import ServingPlan
from lightbox.processes.additions import ServedModels
from lightbox.processes.commands import MODEL_CONFIG, model_config


class PlannedAlone:
    """Those of the plan."""

    note = ""

    def __init__(self, plan: ServingPlan) -> None:
        self._plan = plan

    def names(self) -> Iterable[str]:
        """Return their names."""
        return self._plan.models

    def models(self) -> Iterable[PlannedModel]:
        """Return them all."""
        return self._plan.models.values()


def write_model_config(served: ServedModels, run_dir: Path) -> None:
    """Write the file for a server that is about to start: it would wait in vain for what is not on the disk."""
    replace_file(run_dir / MODEL_CONFIG, model_config(served.models()).encode())
