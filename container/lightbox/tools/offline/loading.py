"""Loads a model into this process, as a start does for a model server."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from lightbox.base.control_characters import escape
from lightbox.base.errors import StartError
from lightbox.base.machine.environment import variable
from lightbox.base.settings import Settings
from lightbox.images.limits import ImageLimits
from lightbox.model.options import OptionSettings, ResolvedOptions
from lightbox.model_files.checks import newest_folder, reading_once, version_problem
from lightbox.model_files.layout import ModelOnDisk, version_numbers
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.engines import AUTO, disk_cache
from lightbox.model_runtime.wire.status import StatusError
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.models_on_disk import found_models, planned_model, shared_code_dirs, unpacked
from lightbox.supervisor.starting.op_threads import with_op_threads
from lightbox.supervisor.starting.option_checks import option_problems
from lightbox.tools.offline.engine_transport import EngineTransport
from lightbox.tools.offline.model import Model
from lightbox.tools.offline.storage import MAX_BODY
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.registry import UserCode

LIMITS = ("LIGHTBOX_MAX_IMAGE_PIXELS", MAX_BODY, "LIGHTBOX_LINKED_FOLDERS", "LIGHTBOX_MODEL_CODE")
"""The settings of the environment that count: errors name them."""

_MODEL_DIR = "LIGHTBOX_MODEL_DIR: "


def load(path: str | PathLike[str], *, threads: int | None = None, **options: Any) -> Model:
    """Load the model at ``path``: whatever LIGHTBOX_MODEL_DIR may name, if it holds one model.

    ``threads`` is how many cores of this machine it may use, for as many calls at the same time; all of them where it
    is left out. ``options`` are keys of ``lightbox.json`` and win over those of the model's own file. The engine is
    ``auto`` unless one of them says otherwise. Raises StartError with a sentence for a path without a model, for
    several models, for an option that does not fit, and for a model that cannot be loaded.
    """
    if threads is not None and threads < 1:
        raise StartError(f"threads: expected at least 1, got {threads}")
    try:
        return _loaded(path, threads, options)
    except StartError as error:
        lines = [_by_argument(line) for line in str(error).splitlines()]
        raise StartError("\n".join(lines)) from None


def _by_argument(line: str) -> str:
    """Return a sentence about settings with the arguments of ``load`` that set them."""
    line = line.removeprefix("LIGHTBOX_OPTIONS: ")
    return f"path: {line.removeprefix(_MODEL_DIR)}" if line.startswith(_MODEL_DIR) else line


def _loaded(path: str | PathLike[str], threads: int | None, options: dict[str, Any]) -> Model:
    settings = load_settings({name: variable(name) for name in LIMITS})
    settings = settings.model_copy(update={"model_dir": Path(path).absolute(), "engine": AUTO})
    settings.add(OptionSettings.of(options))
    with ExitStack() as folders:
        settings = folders.enter_context(unpacked(settings))
        models = found_models(settings)
        if len(models) != 1:
            raise StartError(f"{path}: expected one model, got {', '.join(model.name for model in models)}")
        run_dir = Path(tempfile.mkdtemp(prefix="lightbox-load-"))
        folders.callback(shutil.rmtree, run_dir, ignore_errors=True)
        loaded = _load(models[0], settings, run_dir, threads)
        # Engines may read the model again, and user code its own files, as long as the model is used.
        weakref.finalize(loaded, folders.pop_all().close)
        return loaded


def _load(model: ModelOnDisk, settings: Settings, run_dir: Path, threads: int | None) -> Model:
    if problem := version_problem(newest_folder(model), model.name, 0, settings.linked_folders):
        raise StartError(escape(problem))
    planned = planned_model(model, run_dir, settings, shared_code_dirs(settings), _strict_options)
    user_code = UserCode()
    user_code.load([planned])
    handlers = user_code.of(planned)
    if isinstance(handlers, AwsHandlers) and handlers.handler is not None:
        raise StartError(
            f"{model.base_path}: its inference.py has handler(data, context), which calls a model server, and there is "
            "none: serve the model, or define input_handler and output_handler"
        )
    version = max(version_numbers(planned.base_path))
    op_threads = 1 if threads else with_op_threads(settings, [model]).intra_op_parallelism
    try:
        transport = EngineTransport(planned, version, threads, op_threads, disk_cache.cache_folder(run_dir)[0])
    except StatusError as error:
        raise StartError(f"{model.base_path}: version {version} cannot be loaded: {error.message}") from error
    return Model(planned, transport, user_code, settings, threads)


@reading_once()
def _strict_options(model: ModelOnDisk, code_dirs: Sequence[Path], settings: Settings) -> ResolvedOptions:
    """Return a model's options; raise StartError with each that it cannot follow, and as ``option_problems``."""
    if problems := [misfit.sentence for misfit in option_problems(model, code_dirs, settings)]:
        raise StartError("\n".join(map(escape, problems)))
    return model_options(model, code_dirs, settings)


def most_bytes() -> int:
    """Return the most bytes of a picture, which are those of a request to an endpoint. Raises StartError."""
    return load_settings({MAX_BODY: variable(MAX_BODY)}).max_body_mb << 20


def image_limits() -> ImageLimits:
    """Return the limits of a picture that is decoded. Raises StartError."""
    return ImageLimits.of(load_settings({LIMITS[0]: variable(LIMITS[0])}).max_image_pixels)
