"""What stops a start, found before anything is started and told all at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from lightbox.model_layout import ModelLayoutError, ModelOnDisk
from lightbox.model_options import ModelOptionsError, load_options
from lightbox.processes.commands import ModelServerMissing, model_server_program
from lightbox.processes.nginx import NginxMissing, find_nginx
from lightbox.processes.run_dir import RunDirError
from lightbox.processes.startup import (
    PortTaken,
    check_port,
    check_port_range,
    code_dirs,
    plan_models,
    unloadable_versions,
)
from lightbox.settings import Settings
from lightbox.settings_loading import SettingsError
from lightbox.telemetry.tracing import TracingMissing
from lightbox.user_code.errors import UserCodeError
from lightbox.user_code.places import find_code


class StartRefused(Exception):
    """Nothing can be started; the message holds a line for each problem."""


REFUSALS = (
    SettingsError,
    ModelLayoutError,
    ModelOptionsError,
    ModelServerMissing,
    NginxMissing,
    PortTaken,
    RunDirError,
    StartRefused,
    TracingMissing,
    UserCodeError,
)
"""What stops a start with sentences for the operator instead of a traceback."""


def find_problems(settings: Settings, wrong: Collection[str] = ()) -> list[str]:
    """Return a sentence for each thing that a start with these settings would stumble over.

    ``wrong`` names the variables whose values were refused; what hangs on them is not judged.
    """
    problems: list[str] = []
    if "SAGEMAKER_BIND_TO_PORT" not in wrong:
        with _noted_in(problems):
            check_port(settings)
    with _noted_in(problems):
        check_port_range(settings)
    with _noted_in(problems):
        model_server_program(settings)
    with _noted_in(problems):
        find_nginx()
    if not settings.multi_model and not {"LIGHTBOX_MODEL_DIR", "SAGEMAKER_MULTI_MODEL"} & set(wrong):
        with _noted_in(problems):
            models, _ = plan_models(settings)
            problems += _problems_of(models.values(), settings)
    return list(dict.fromkeys(problems))


def _problems_of(models: Iterable[ModelOnDisk], settings: Settings) -> list[str]:
    problems: list[str] = []
    for model in models:
        problems += unloadable_versions(model)
        if settings.universal_bucket:  # what is downloaded later may complete a model's own code
            continue
        folders = code_dirs(model, settings.model_dir / "code")
        with _noted_in(problems):
            find_code(folders)
        with _noted_in(problems):
            load_options(folders, settings)
    return problems


@contextmanager
def _noted_in(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except REFUSALS as error:
        problems += str(error).splitlines()
