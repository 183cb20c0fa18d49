"""All checks of a start that change nothing; ``serve`` and ``check`` run them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from lightbox.base.control_characters import escape
from lightbox.base.errors import StartError
from lightbox.base.machine.memory import LEAST_MB, container_bytes
from lightbox.base.settings import Settings, variable_names
from lightbox.core.additions import NO_NEEDS, StartNeeds
from lightbox.model.options import options_file
from lightbox.model_files.checks import bytes_of_files, newest_folder, reading_once, unusable_versions
from lightbox.model_files.foreign_files import MLFLOW, describe_foreign_folder
from lightbox.model_files.layout import ModelOnDisk, folders_without_model, is_version, weights_note
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.access import access_problem, is_file
from lightbox.model_runtime.engines import AUTO, DEFAULT, OPENING
from lightbox.model_runtime.formats import SAVED_MODEL_PLATFORM, model_file
from lightbox.nginx import tls
from lightbox.nginx.installation import find_nginx, http2_warning
from lightbox.supervisor.starting.addresses import check_added_ports, check_port, check_port_range
from lightbox.supervisor.starting.commands import BINARY, model_server_program
from lightbox.supervisor.starting.models_on_disk import code_dirs, plan_models, shared_code_dirs
from lightbox.supervisor.starting.option_checks import Misfit, option_problems

_LIKE_A_VERSION = re.compile(r"(?:v|version)[-_.]?(\d+)", re.IGNORECASE)
"""The name of a model that was meant as a version's."""
_OF_MODELS = {*variable_names("model_dir"), *variable_names("models"), "SAGEMAKER_MULTI_MODEL"}
"""Variables that choose the models."""
SERVER_MB, LIGHT_SERVER_MB, WORKER_MB = 250, 130, 45
"""Memory of a model server with and without TensorFlow, and of a worker; the other processes take that of a worker."""


@reading_once()
def find_problems(settings: Settings, wrong: Collection[str] = (), wants: StartNeeds = NO_NEEDS) -> list[str]:
    """Return a sentence for each problem of a start with these settings.

    ``wrong`` names variables whose values are invalid already; checks that depend on them are skipped. ``wants`` are
    the features' requirements.
    """
    problems: list[str] = []
    if not set(wrong).intersection(variable_names("port")):
        with _collecting_into(problems):
            check_port(settings)
    with _collecting_into(problems):
        check_added_ports(wants.ports, settings.host)
    with _collecting_into(problems):
        check_port_range(settings, wants)
    return list(dict.fromkeys(problems + find_lasting_problems(settings, wrong, wants)))


def find_lasting_problems(settings: Settings, wrong: Collection[str] = (), wants: StartNeeds = NO_NEEDS) -> list[str]:
    """Return the problems of ``find_problems`` except for ports, which a running Lightbox has taken itself."""
    problems: list[str] = []
    with _collecting_into(problems):
        model_server_program(settings)
    if settings.nginx:
        with _collecting_into(problems):
            find_nginx()
    elif needing := [*tls.variables(settings), *wants.nginx]:
        problems.append(f"LIGHTBOX_NGINX: expected nginx, for {', '.join(needing)}; got a start without it")
    with _collecting_into(problems):
        tls.identify(settings)
    for check in wants.checks:
        with _collecting_into(problems):
            check()
    if settings.has_fixed_models and not _OF_MODELS & set(wrong):
        with _collecting_into(problems):
            models, default = plan_models(settings)
            problems += _problems_of(models.values(), default, settings)
    return list(dict.fromkeys(problems))


@reading_once()
def find_warnings(settings: Settings, wants: StartNeeds = NO_NEEDS) -> list[str]:
    """Return a sentence for each folder without a model, each model with a version's name or with random weights, each
    setting that a model cannot follow, and each problem of TLS or HTTP/2 that does not stop a start.

    The default model must follow all settings but those that change nothing for it, else the start fails. It fails as
    well if a setting fits no model. A variable applies to all models and may be meant for some.
    """
    memory = memory_warning(settings)
    of_http2 = http2_warning() if settings.nginx and (settings.tls_cert or wants.ports) else None
    passed = tls.warnings(settings) + [warning for warning in (of_http2, memory) if warning]
    if not settings.has_fixed_models:
        return passed
    models, default = plan_models(settings)
    passed += [
        f"LIGHTBOX_MODEL_DIR: {why or f'{folder} is not a model that can be served{_missing_model_reason(folder)}'}"
        for folder, why in ({} if settings.models else folders_without_model(settings.model_dir)).items()
    ]
    passed += [
        f"LIGHTBOX_MODEL_DIR: {model.base_path} is served as the model {name}; the folder of a version has a number "
        f"alone: {version[1]} for version {version[1]} of {model.base_path.parent.name}"
        for name, model in models.items()
        if model.unversioned and (version := _LIKE_A_VERSION.fullmatch(name))
    ]
    notes = ((name, weights_note(newest_folder(model))) for name, model in models.items())
    passed += [f"{name} has {note}" for name, note in notes if note.startswith("random weights")]
    return passed + [
        misfit.sentence
        for model in models.values()
        for misfit in _misfits(model, settings)
        if not misfit.is_own and (model.name != default or misfit.is_idle)
    ]


def memory_warning(settings: Settings) -> str | None:
    """Return a sentence if the container's memory can hardly hold the processes, the models and one request."""
    models = plan_models(settings)[0].values() if settings.has_fixed_models else ()
    folders = [newest_folder(model) for model in models]
    is_light = bool(folders) and all(model_file(folder) for folder in folders)  # no model needs TensorFlow
    of_models = sum(map(bytes_of_files, folders))
    of_server = (LIGHT_SERVER_MB if is_light else SERVER_MB) * settings.instance_count
    needed = of_server + WORKER_MB * (settings.workers + 1) + LEAST_MB + (of_models >> 20)
    if needed <= (limit := container_bytes() >> 20):
        return None
    return (
        f"the container has {limit} MiB of memory, and its processes with the models ({of_models >> 20} MiB of files) "
        f"and one request take about {needed} MiB: raise its limit, or the kernel ends processes"
    )


def _missing_model_reason(folder: Path) -> str:
    if is_file(folder / MLFLOW):
        return describe_foreign_folder(folder)
    if access_problem(folder) is None and any(is_version(entry.name) for entry in folder.iterdir()):
        return ": none of its numbered folders contains a model"
    return " and is ignored"


def _problems_of(models: Iterable[ModelOnDisk], default: str, settings: Settings) -> list[str]:
    problems: list[str] = []
    unfit = list[dict[str, str]]()
    """Of each model the options for all models that it cannot follow."""
    told = set[str]()
    for model in models:
        unusable = unusable_versions(model, settings.linked_folders)
        problems += [f"LIGHTBOX_MODEL_DIR: {escape(problem)}" for problem in unusable]
        if settings.universal_bucket:  # a later download may complete a model's own code
            continue
        with _collecting_into(problems):
            problems += _engine_problem(model, settings)
        with _collecting_into(problems):
            found = list(_misfits(model, settings))
            unfit.append({one.key: one.sentence for one in found if not one.is_own})
            refused = [one for one in found if one.is_own or (model.name == default and not one.is_idle)]
            problems += [one.sentence for one in refused]
            told |= {one.key for one in refused}
    fits_none = set.intersection(*map(set, unfit)) - told if unfit else told
    return problems + [sentence for of_model in unfit for key, sentence in of_model.items() if key in fits_none]


def _engine_problem(model: ModelOnDisk, settings: Settings) -> Iterator[str]:
    """Yield the problem if no installed engine opens the newest version of a model, if tensorflow_model_server does
    not, or if the model's own options choose an engine beside it."""
    folders = code_dirs(model, shared_code_dirs(settings))
    options, file = model_options(model, folders, settings), model_file(newest_folder(model))
    engine = options.engine or settings.engine or AUTO
    opening = OPENING[file.format.platform if file else SAVED_MODEL_PLATFORM]
    needed = opening if engine == AUTO or (file and engine == DEFAULT) else (engine,)
    title = f"{file.path} is {file.format.title}" if file else f"{newest_folder(model)} is a SavedModel"
    install = "" if any(map(find_spec, needed)) else f": pip install 'lightbox-serve[{needed[0]}]'"
    if model_server_program(settings)[0] != BINARY:
        if install:
            yield f"LIGHTBOX_MODEL_DIR: {title}, which needs {' or '.join(needed)}{install}"
        return
    if file:
        why = f"{install}; of the images, --target openvino and --target embedded have it" if install else ""
        how = f"set LIGHTBOX_MODEL_SERVER=embedded{f', which needs {needed[0]}' if install else ''}{why}"
        yield f"LIGHTBOX_MODEL_DIR: {title}, which {BINARY} does not open; {how}"
    for key, without in (("engine", (None, DEFAULT)), ("precision", ("f32",))):
        if getattr(options, key) not in without:
            why = f"expected none with {BINARY}, which has its own; set LIGHTBOX_MODEL_SERVER=embedded"
            yield f"{options_file(folders)}: {key}: {why}"


def _misfits(model: ModelOnDisk, settings: Settings) -> Iterator[Misfit]:
    return option_problems(model, code_dirs(model, shared_code_dirs(settings)), settings)


@contextmanager
def _collecting_into(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except StartError as error:
        problems += str(error).splitlines()
