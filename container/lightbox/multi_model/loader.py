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
from lightbox.model_checks import misfits, unusable_versions
from lightbox.model_layout import ModelOnDisk
from lightbox.model_options import ModelOptionsError, load_options
from lightbox.model_server_config import model_config
from lightbox.multi_model.memory import available_bytes
from lightbox.multi_model.places import Source, check_name, locate, size_of
from lightbox.multi_model.state import LoadedModel, LoadedModels
from lightbox.plan import PlannedModel
from lightbox.settings import Settings
from lightbox.telemetry.clock import RequestClock
from lightbox.user_code.errors import UserCodeError

ROLLBACK_SECONDS = 30.0

CodeCheck = Callable[[PlannedModel], None]
"""Raises LightboxError when a model's inference.py cannot be used."""


class Management(Protocol):
    """What the loader needs of transports.management.ModelManagement."""

    def reload(self, config: str, clock: RequestClock) -> None:
        """Have exactly the models of a configuration text served."""
        ...


class ModelLoader:
    """Serves POST and DELETE of /models; safe in several threads and processes."""

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
        # Archives are unpacked below the run directory; callers cannot know its name.
        self._roots = (settings.model_dir, run_dir / "models")

    def load(self, name: object, source: Source, clock: RequestClock) -> LoadedModel:
        """Load the model at ``source`` and serve it as ``name``.

        Raises BadRequest, ModelNotFound, AlreadyLoaded and NoRoom; after each of them nothing has changed.
        """
        checked = check_name(name)
        with self._state.changing(clock):
            loaded = dict(self._state.all())
            if checked in loaded:
                raise AlreadyLoaded(f"the model {checked!r} is loaded already, from {loaded[checked].url!r}")
            if len(loaded) >= self._settings.max_models:
                raise NoRoom(f"{len(loaded)} models are loaded, as many as LIGHTBOX_MAX_MODELS allows")
            folder, found = locate(source, self._roots)
            self._check_memory(found)
            generation = uuid.uuid4().hex
            code_dirs = list(dict.fromkeys([found.base_path / "code", folder / "code", *self._shared_code_dirs]))
            problems = self._problems_of(replace(found, name=checked), code_dirs)
            if problems:  # in the words of the caller, who need not know where links and archives lead
                raise BadRequest(f"{source.field}: {'; '.join(problems).replace(str(folder), source.shown)}")
            model = self._planned(checked, found, code_dirs, generation)
            try:
                self._check_code(model)
                self._serve(loaded, LoadedModel(model=model, url=str(source.path), generation=generation), clock)
            except BaseException:
                self._remove_link(checked, generation)
                raise
            return self._state.get(checked)

    def unload(self, name: str, clock: RequestClock) -> None:
        """Stop serving a model; what is in progress finishes. Raises ModelNotFound."""
        with self._state.changing(clock):
            gone = self._state.get(name)
            rest = {key: value for key, value in self._state.all().items() if key != name}
            self._state.write(rest)
            self._write_config(rest)
            # A server that is away now reads the configuration file when it comes back.
            with suppress(LightboxError):
                self._management.reload(model_config(entry.model for entry in rest.values()), clock)
            self._remove_link(name, gone.generation)

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

    def _problems_of(self, found: ModelOnDisk, code_dirs: Sequence[Path]) -> list[str]:
        """Return a sentence for each thing that would refuse a start with this model."""
        try:
            own = [misfit for own, misfit in misfits(found, code_dirs, self._settings) if own]
        except (ModelOptionsError, UserCodeError) as error:
            own = [str(error)]
        return unusable_versions(found) + own

    def _planned(self, name: str, found: ModelOnDisk, code_dirs: Sequence[Path], generation: str) -> PlannedModel:
        options = load_options(code_dirs, self._settings)
        base_path = self._link(name, found, generation) if found.unversioned else found.base_path
        return PlannedModel(name=name, base_path=base_path, options=options, code_dirs=tuple(code_dirs))

    def _link(self, name: str, found: ModelOnDisk, generation: str) -> Path:
        """Give a bare SavedModel the version directory that a model server asks for."""
        base_path = self._run_dir / "models" / f"{name}-{generation}"
        base_path.mkdir(parents=True)
        (base_path / "1").symlink_to(found.base_path, target_is_directory=True)
        return base_path

    def _remove_link(self, name: str, generation: str) -> None:
        shutil.rmtree(self._run_dir / "models" / f"{name}-{generation}", ignore_errors=True)

    def _check_memory(self, found: ModelOnDisk) -> None:
        free, needed = available_bytes(), size_of(found.base_path)
        if free is not None and needed > free:
            raise NoRoom(f"the model's files are {needed >> 20} MiB, and {free >> 20} MiB of memory are left")
