"""Loads and unloads models: the model server first, then the list that all workers read."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from lightbox.errors import AlreadyLoaded, BadRequest, LightboxError, NoRoom
from lightbox.hidden_folders import without_folders
from lightbox.model_checks import misfits, unusable_versions
from lightbox.model_layout import ModelOnDisk
from lightbox.model_options import ModelOptionsError, load_options
from lightbox.model_server_config import model_config
from lightbox.multi_model.memory import available_bytes
from lightbox.multi_model.places import Source, check_name, find_model, locate, size_of, unpack
from lightbox.multi_model.state import LoadedModel, LoadedModels
from lightbox.plan import PlannedModel
from lightbox.settings import Settings
from lightbox.telemetry.clock import RequestClock
from lightbox.user_code.errors import UserCodeError

ROLLBACK_SECONDS = 30.0

CodeCheck = Callable[[PlannedModel], None]
"""Raises UserCodeError when a model's inference.py cannot be used; ends within its own limit."""


class Management(Protocol):
    """What the loader needs of transports.management.ModelManagement."""

    def reload(self, config: str, clock: RequestClock) -> None:
        """Have exactly the models of a configuration text served."""
        ...


class ModelLoader:
    """Serves POST and DELETE of /models; safe in several threads and processes.

    What it makes for a load, such as what an archive holds, lies in a folder of that load's own below the run
    directory, until the model is unloaded.
    """

    def __init__(
        self,
        settings: Settings,
        run_dir: Path,
        state: LoadedModels,
        management: Management,
        check_code: CodeCheck,
        shared_code_dirs: Sequence[Path] = (),
    ) -> None:
        self._settings = settings
        self._shared_code_dirs = shared_code_dirs
        self._run_dir = run_dir
        self._state = state
        self._management = management
        self._check_code = check_code

    def load(self, name: object, source: Source, clock: RequestClock) -> LoadedModel:
        """Load the model at ``source`` and serve it as ``name``.

        Raises BadRequest, ModelNotFound, AlreadyLoaded and NoRoom; after each of them nothing has changed.
        """
        checked, clock = check_name(name), clock.longer(self._settings.load_seconds)
        with self._state.loading(checked, clock):
            self._loaded_before(checked)
            generation = uuid.uuid4().hex
            own = self._own_folder(checked, generation)
            try:
                model, size = self._prepared(checked, source, own)
                with self._state.changing(clock):
                    loaded = self._loaded_before(checked)
                    _check_memory(size)
                    self._serve(loaded, LoadedModel(model=model, url=str(source.path), generation=generation), clock)
                    return self._state.get(checked)
            except BaseException:
                shutil.rmtree(own, ignore_errors=True)
                raise

    def unload(self, name: str, clock: RequestClock) -> None:
        """Stop serving a model; what is in progress finishes. Raises ModelNotFound."""
        clock = clock.longer(self._settings.load_seconds)
        with self._state.changing(clock):
            gone = self._state.get(name)
            rest = {key: value for key, value in self._state.all().items() if key != name}
            self._state.write(rest)
            self._write_config(rest)
            # A server that is away now reads the configuration file when it comes back.
            with suppress(LightboxError):
                self._management.reload(model_config(entry.model for entry in rest.values()), clock)
        shutil.rmtree(self._own_folder(name, gone.generation), ignore_errors=True)

    def _loaded_before(self, name: str) -> dict[str, LoadedModel]:
        """Return what is loaded. Raises AlreadyLoaded and NoRoom when ``name`` cannot join it."""
        loaded = dict(self._state.all())
        if name in loaded:
            raise AlreadyLoaded(f"the model {name!r} is loaded already, from {loaded[name].url!r}")
        if len(loaded) >= self._settings.max_models:
            raise NoRoom(f"{len(loaded)} models are loaded, as many as LIGHTBOX_MAX_MODELS allows")
        return loaded

    def _own_folder(self, name: str, generation: str) -> Path:
        return self._run_dir / "models" / f"{name[:200]}-{generation}"  # a file's name has 255 characters at most

    def _prepared(self, name: str, source: Source, own: Path) -> tuple[PlannedModel, int]:
        """Return the model at ``source``, and its files' bytes; ``own`` is the folder for what is made for it."""
        root = self._settings.model_dir
        folder = locate(source, root)
        if folder.is_file():
            unpack(folder, own / "unpacked", source)
            folder = root = own / "unpacked"

        def refusal(text: str) -> BadRequest:
            # In the words of the caller, who need not know where links and archives lead.
            return BadRequest(f"{source.field}: {without_folders(text.replace(str(folder), source.shown))}")

        found = find_model(folder, root, source)
        code_dirs = list(dict.fromkeys([found.base_path / "code", folder / "code", *self._shared_code_dirs]))
        if problems := self._problems_of(replace(found, name=name), code_dirs):
            raise refusal("; ".join(problems))
        options = load_options(code_dirs, self._settings)
        base_path = _with_version(found, own) if found.unversioned else found.base_path
        model = PlannedModel(name=name, base_path=base_path, options=options, code_dirs=tuple(code_dirs))
        try:
            self._check_code(model)
        except UserCodeError as error:
            raise refusal(str(error)) from error
        return model, size_of(found.base_path)

    def _problems_of(self, found: ModelOnDisk, code_dirs: Sequence[Path]) -> list[str]:
        """Return a sentence for each thing that would refuse a start with this model."""
        try:
            own = [misfit for own, misfit in misfits(found, code_dirs, self._settings) if own]
        except (ModelOptionsError, UserCodeError) as error:
            own = [str(error)]
        return unusable_versions(found) + own

    def _serve(self, loaded: Mapping[str, LoadedModel], new: LoadedModel, clock: RequestClock) -> None:
        wanted = {**loaded, new.model.name: new}
        try:
            self._management.reload(model_config(entry.model for entry in wanted.values()), clock)
        except LightboxError:
            with suppress(LightboxError):
                before = model_config(entry.model for entry in loaded.values())
                self._management.reload(before, RequestClock(ROLLBACK_SECONDS))
            raise
        self._write_config(wanted)
        self._state.write(wanted)

    def _write_config(self, loaded: Mapping[str, LoadedModel]) -> None:
        """A model server that is started again loads what is loaded now."""
        path = self._run_dir / "models.config"
        partial = path.with_suffix(".partial")
        partial.write_text(model_config(entry.model for entry in loaded.values()))
        partial.replace(path)


def _with_version(found: ModelOnDisk, own: Path) -> Path:
    """Give a bare SavedModel the version directory that a model server asks for: a link named 1."""
    base_path = own / "versions"
    base_path.mkdir(parents=True)
    (base_path / "1").symlink_to(found.base_path, target_is_directory=True)
    return base_path


def _check_memory(needed: int) -> None:
    free = available_bytes()
    if free is not None and needed > free:
        raise NoRoom(f"the model's files are {needed >> 20} MiB, and {free >> 20} MiB of memory are left")
