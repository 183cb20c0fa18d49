"""The models of a start, and the folders of their code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lightbox.base.errors import LightboxError, StartError
from lightbox.base.request_context import RequestContext
from lightbox.base.run_dir import RunDir
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ResolvedOptions
from lightbox.model_files.archives import ENDINGS, unpack
from lightbox.model_files.checks import show_versions
from lightbox.model_files.layout import (
    NAME_EXPECTED,
    ModelLayoutError,
    ModelOnDisk,
    choose_default,
    find_models,
    is_model_name,
    models_below,
)
from lightbox.model_runtime.access import access_problem, is_file
from lightbox.user_code.paths import importable

UNPACK_SECONDS = 3600.0


class BrokenArchive(StartError):
    """A model's archive cannot be unpacked; the message names it."""


def found_models(settings: Settings) -> list[ModelOnDisk]:
    """Return the models of a start by name; raise ModelLayoutError."""
    if settings.models:
        return [_model_at(path, name) for name, path in sorted(settings.models.items())]
    return find_models(settings.model_dir)


def _model_at(path: Path, name: str) -> ModelOnDisk:
    """Return the one model at a path under the given name, whatever the path's name."""
    if not is_model_name(name):
        raise ModelLayoutError(f"LIGHTBOX_MODELS: {name!r} cannot be a model's name: expected {NAME_EXPECTED}")
    try:
        result = models_below(path)
    except ModelLayoutError as error:
        text = str(error).removeprefix("LIGHTBOX_MODEL_DIR: ")
        raise ModelLayoutError(f"LIGHTBOX_MODELS: {name}: {text}") from None
    if len(result) > 1:
        names = ", ".join(model.name for model in result)
        raise ModelLayoutError(f"LIGHTBOX_MODELS: {name}: expected one model in {path}, got {names}")
    return replace(result[0], name=name)


def plan_models(settings: Settings) -> tuple[dict[str, ModelOnDisk], str]:
    """Return the models of a start by name, and the default one's name; raise ModelLayoutError."""
    models = found_models(settings)
    return {model.name: model for model in models}, choose_default(models, settings.default_model)


@contextmanager
def unpacked(settings: Settings) -> Iterator[Settings]:
    """Yield settings with folders in place of models' archives; the unpacked files are removed after the block.

    Raises BrokenArchive and RunDirError. A StartError of the block names the archives.
    """
    named = {"LIGHTBOX_MODEL_DIR": settings.model_dir} if settings.has_fixed_models and not settings.models else {}
    archives = [(f"LIGHTBOX_MODELS: {name}", path) for name, path in settings.models.items()] + list(named.items())
    archives = [(variable, path) for variable, path in archives if path.name.endswith(ENDINGS) and path.is_file()]
    if not archives:
        yield settings
        return
    with RunDir() as run_dir:
        folders = {}
        for number, (variable, path) in enumerate(archives):
            folders[path] = _unpack(path, run_dir.path / str(number), variable)
        models = {name: folders.get(path, path) for name, path in settings.models.items()}
        model_dir = folders.get(settings.model_dir, settings.model_dir)
        try:
            yield settings.model_copy(update={"models": models, "model_dir": model_dir})
        except StartError as error:
            text = str(error)
            for archive, folder in folders.items():
                text = text.replace(str(folder), str(archive))
            raise StartError(text) from error


def _unpack(archive: Path, folder: Path, variable: str) -> Path:
    """Unpack an archive into a new folder, and return its subfolder with the archive's name."""
    root = folder / archive.name.removesuffix(".tgz").removesuffix(".tar.gz")
    log(f"unpacking {archive}")
    try:
        unpack(archive, root, f"{variable}: {archive}", RequestContext(UNPACK_SECONDS))
    except LightboxError as error:
        raise BrokenArchive(error.message) from None
    return root


def shared_code_dirs(settings: Settings) -> tuple[Path, ...]:
    """Return the folders of code for all models; SageMaker has one of its own in multi-model mode."""
    beside_models = () if is_file(settings.model_dir) else (settings.model_dir / "code",)
    return beside_models if settings.has_fixed_models else (settings.code_dir, *beside_models)


def code_dirs(model: ModelOnDisk, shared: Iterable[Path]) -> list[Path]:
    """Return the folders of a model's code: its own, if it has one, then those for all models.

    Raises ModelLayoutError for a folder that the user may not read.
    """
    own = [] if is_file(model.base_path) else [model.base_path / "code"]
    folders = list(dict.fromkeys([*own, *shared]))
    if problem := next(filter(None, map(access_problem, folders)), None):
        raise ModelLayoutError(problem)
    return folders


def planned_model(
    model: ModelOnDisk,
    folder: Path,
    settings: Settings,
    shared: Iterable[Path],
    find_options: Callable[[ModelOnDisk, Sequence[Path], Settings], ResolvedOptions],
) -> PlannedModel:
    """Return the plan of a model with the options that are found for it, and its versions' links below ``folder``."""
    folders, base_path = code_dirs(model, shared), folder / model.name
    options = find_options(model, folders, settings)
    show_versions(model, base_path, folders)
    return PlannedModel(
        name=model.name,
        base_path=base_path,
        versions_dir=None if model.unversioned else model.base_path,
        options=options,
        names_images_only=options.for_images_only,
        code_dirs=importable(folders, settings),
    )


def find_model(name: str | None, settings: Settings) -> ModelOnDisk:
    """Return a model by its name, the default one for None. Raises LookupError with a sentence for an unknown name."""
    try:
        models, default = plan_models(settings)
    except StartError as error:
        if name is None:
            raise
        raise LookupError(f"MODEL: there is no file or folder {name!r}, and no model of this name: {error}") from None
    if name is not None and name not in models:
        known = ", ".join(models)
        raise LookupError(f"MODEL: there is no model named {name!r} in {settings.model_dir}; found: {known}")
    return models[name or default]
