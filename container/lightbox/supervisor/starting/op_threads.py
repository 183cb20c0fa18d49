"""The number of intra-op threads of the model server, where the settings leave it open.

docs/adr/078-intra-op-threads.md says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightbox.base.errors import StartError
from lightbox.base.machine.environment import environment
from lightbox.base.machine.gpus import gpu_names
from lightbox.base.settings import Settings, variable_names
from lightbox.model_files.checks import newest_folder
from lightbox.model_files.cost import multiplications
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.formats import model_file
from lightbox.supervisor.starting.commands import BINARY, model_server_program

MOST_MULTIPLICATIONS = 400_000_000
"""Up to here, one call is as fast with one thread as with two. Above, two threads answer a single client sooner."""
MEASURED_CORES = 2
"""More cores were not measured."""


@dataclass(frozen=True)
class OpThreads:
    """The number of threads and the reason; ``for_server`` is the value of the flag, 0 for no flag."""

    count: int
    why: str
    for_server: int

    def __str__(self) -> str:
        return f"TensorFlow intra-op threads: {self.count or 'chosen by TensorFlow'} ({self.why})"

    def applied(self, settings: Settings) -> Settings:
        """Return the settings with this number."""
        return settings.model_copy(update={"intra_op_parallelism": self.for_server})


def choose(settings: Settings, models: Iterable[ModelOnDisk]) -> OpThreads:
    """Choose for one model server that loads all ``models``: its sessions share their threads."""
    if "intra_op_parallelism" in settings.model_fields_set:
        given = settings.intra_op_parallelism
        return OpThreads(given, f"{variable_names('intra_op_parallelism')[0]}={given}", given)
    is_binary = model_server_program(settings)[0] == BINARY
    if is_binary and gpu_names(environment()):
        return OpThreads(0, "there is a GPU", 0)
    cores = available_cores()
    if cores == 1:
        return OpThreads(1, "there is one core", 1)
    is_light, why = _judge(settings, models, cores)
    if is_light:
        return OpThreads(1, why, 1)
    # TensorFlow counts the machine's cores and ignores the quota. The embedded server knows the quota, and would apply
    # the flag to OpenVINO as well.
    return OpThreads(cores, why, cores if is_binary else 0)


def _judge(settings: Settings, models: Iterable[ModelOnDisk], cores: int) -> tuple[bool, str]:
    """Return whether calls are too short to be divided among threads, and why."""
    if cores > MEASURED_CORES:
        return False, f"one for each of {cores} cores"
    if not settings.has_fixed_models:
        return False, f"one for each of {cores} cores: models are loaded later"
    models = [model for model in models if not model_file(newest_folder(model))]
    if not models:
        return False, "no model is a SavedModel"
    rows = settings.max_batch_size if settings.enable_batching else 1
    call = "call" if rows == 1 else f"batch of {rows}"
    heaviest, largest = "", 0
    for model in models:
        work = _work(model)
        if work is None:
            return False, f"one for each of {cores} cores: the graph of {model.name} does not show its multiplications"
        heaviest, largest = max((heaviest, largest), (model.name, work * rows), key=lambda item: item[1])
    amount = f"{largest / 1e6:,.0f}" if largest >= 1e6 else "fewer than 1"
    figure = f"{amount} million multiplications per {call}, the limit is {MOST_MULTIPLICATIONS / 1e6:,.0f} million"
    if largest > MOST_MULTIPLICATIONS:
        return False, f"one for each of {cores} cores: {heaviest} is large, {figure}"
    return True, f"{heaviest} is small: {figure}"


def _work(model: ModelOnDisk) -> int | None:
    """Return the multiplications of a call of the newest version, None if unknown."""
    try:
        return multiplications(newest_folder(model))
    except StartError:
        return None
