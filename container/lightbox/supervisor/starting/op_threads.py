"""The number of intra-op threads of the model server, where the settings leave it open.

docs/adr/078-intra-op-threads.md says why.
"""

from __future__ import annotations

from collections.abc import Iterable

from lightbox.base.machine.environment import environment
from lightbox.base.machine.gpus import gpu_names
from lightbox.base.settings import Settings
from lightbox.model_files.checks import bytes_of_files, newest_folder
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.formats import model_file
from lightbox.supervisor.starting.commands import BINARY, model_server_program

SMALL_BYTES = 32 << 20
"""Calls of a smaller SavedModel are short; with a larger one two threads answer a single client sooner."""
_MEASURED_CORES = 2


def with_op_threads(settings: Settings, models: Iterable[ModelOnDisk]) -> Settings:
    """Return the settings with the threads for a model server that loads all ``models``; 0 leaves them to it."""
    if "intra_op_parallelism" in settings.model_fields_set:
        return settings
    cores = available_cores()
    if cores == _MEASURED_CORES and settings.has_fixed_models and not settings.enable_batching:
        folders = [newest_folder(model) for model in models]
        cores = 1 if all(model_file(folder) or bytes_of_files(folder) < SMALL_BYTES for folder in folders) else cores
    if model_server_program(settings)[0] == BINARY:  # it counts the machine's cores and ignores the quota
        count = 0 if gpu_names(environment()) else cores
    else:  # it knows the quota, and would apply more threads to OpenVINO as well
        count = 1 if cores == 1 else 0
    return settings.model_copy(update={"intra_op_parallelism": count})


def threads_lines(settings: Settings, models: Iterable[ModelOnDisk]) -> list[str]:
    """Return a line about the threads in these settings, none if TensorFlow runs none of the start's models."""
    if settings.has_fixed_models and all(model_file(newest_folder(model)) for model in models):
        return []
    return [f"TensorFlow intra-op threads: {settings.intra_op_parallelism or 'chosen by the model server'}"]
