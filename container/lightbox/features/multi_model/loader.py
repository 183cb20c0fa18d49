"""Loads and unloads models: first in the model servers, then in the list that all workers read."""

from __future__ import annotations

import hashlib
import logging
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from lightbox.base.error_texts import without_folders
from lightbox.base.errors import AlreadyLoaded, BadRequest, DeadlineExceeded, LightboxError, NoRoom, Unavailable
from lightbox.base.machine.memory import available_bytes
from lightbox.base.machine.temporary_storage import free_bytes
from lightbox.base.request_context import RequestContext, Turns
from lightbox.base.settings import Settings
from lightbox.features.multi_model.model_path import Source, check_name, find_model, locate, measure
from lightbox.features.multi_model.state import By, LoadedModel, LoadedModels
from lightbox.features.multi_model.transition import ROLLBACK_SECONDS, LoadFailed, Transition
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import CODE, ModelOptionsError
from lightbox.model_files.archives import most_unpacked, unpack, unpacked_bytes
from lightbox.model_files.checks import show_versions, unusable_versions
from lightbox.model_files.layout import ModelOnDisk, version_numbers
from lightbox.model_runtime.deadline import deadline
from lightbox.supervisor.starting.model_server_config import model_config
from lightbox.supervisor.starting.option_checks import fitting_options, option_problems
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.model_status import ServerState
from lightbox.user_code.paths import UserCodeError, importable

STATUS_SECONDS = 2.0
"""Seconds that the model servers have to report a model's versions."""

KEPT_SHARE = 4
"""One of so many places for models, at least one, is for those that a TargetModel cannot load."""

UNPACKED = "unpacked"
"""The part of a load's folder for its archive's files."""

LONGEST_IN_FOLDER, GENERATION_LENGTH = 200, 32
"""Longest part of a model's name in the name of a load's folder, as file names have 255 characters; and the suffix."""

log = logging.getLogger("lightbox")

CodeCheck = Callable[[PlannedModel], None]
"""Raises UserCodeError for an unusable inference.py, within a time limit of its own."""


class ModelLoader:
    """Serves POST and DELETE of /models; safe in several threads and processes.

    Each load has a folder of its own below the run directory: for an unpacked archive, and for the base path of the
    model servers, with a link for each version. So no one else can remove the model servers' folders. A load's folder
    stays until each server that was sent its path has unloaded the model, or ended.
    """

    def __init__(
        self,
        settings: Settings,
        max_models: int,
        run_dir: Path,
        state: LoadedModels,
        management: ModelManagement,
        check_code: CodeCheck,
        shared_code_dirs: Sequence[Path] = (),
    ) -> None:
        self._settings = settings
        self._max_models = max_models
        self._most_by_target = max(1, max_models - max(1, max_models // KEPT_SHARE))
        self._shared_code_dirs = shared_code_dirs
        self._run_dir = run_dir
        self._state = state
        self._management = management
        self._check_code = check_code
        self._turns = Turns(max(1, settings.threads // 2))

    def load(self, name: object, source: Source, context: RequestContext, by: By = "name") -> LoadedModel:
        """Load the model at ``source`` and serve it as ``name``.

        Models that only a TargetModel loaded make room for it, the least recently used first, none that is in use.
        Raises BadRequest, ModelNotFound, AlreadyLoaded, NoRoom, Unavailable, ModelFailed and DeadlineExceeded. After
        each of them the list is unchanged but for those, and the next call removes the rest of the model from the
        servers.
        """
        with self.turn():
            return self.load_in_turn(name, source, context, by)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold one of the threads that loads may have, also to wait for another load. Raises Unavailable."""
        if not self._turns.acquire(0):  # waiting would hold a thread, too
            raise Unavailable("try again: loads hold half of the threads; the others are for models that are loaded")
        try:
            yield
        finally:
            self._turns.release()

    def load_in_turn(self, name: object, source: Source, context: RequestContext, by: By) -> LoadedModel:
        """Do the same for a caller that holds a turn."""
        checked, context = check_name(name), context.longer(self._settings.load_seconds)
        with context.stage("load"), self._state.loading(checked, context):
            self._loaded_before(checked)
            generation = uuid.uuid4().hex
            own = self._own_folder(checked, generation)
            transition: Transition | None = None
            try:
                place = locate(source, self._settings.model_dir)
                with deadline(partial(context.check, "the model")):
                    self._make_room_to_unpack(place, source.field, context)
                    model, size = self._prepared(checked, source, place, own, context)
                new = LoadedModel(
                    model=model, url=str(source.path), generation=generation, path=place, by=by, size=size
                )
                with self._state.changing(context):
                    self._unload_removed(context)
                    self._make_room(by, size, context)
                    loaded = self._loaded_before(checked)
                    transition = self._transition(checked, loaded)
                    try:
                        self._serve(loaded, new, transition, context)
                    except LoadFailed as error:
                        raise _refusal(source, error.message, model.base_path) from error
                    return self._state.get(checked)
            except BaseException:
                if transition is None or not transition.reload_sent:
                    shutil.rmtree(own, ignore_errors=True)
                raise

    def keep(self, entry: LoadedModel, context: RequestContext) -> None:
        """Count a model that a TargetModel loaded as one that was loaded for good."""
        with self._state.changing(context):
            if self._state.all().get(entry.model.name) == entry:
                self._state.update(entry.model.name, loaded=entry.model_copy(update={"by": "path"}))

    def unload(self, name: str, context: RequestContext) -> LoadedModel:
        """Stop serving a model and return its entry; requests in progress finish first.

        Raises ModelNotFound, Unavailable, ModelFailed, and DeadlineExceeded if it did not end in time: it is not served
        any more, and can be unloaded again or loaded.
        """
        context = context.longer(self._settings.load_seconds)
        with context.stage("load"), self._state.changing(context):
            return self._unload(name, context)

    def _unload_removed(self, context: RequestContext) -> None:
        """Unload models that were removed from the disk: a restarted server could not load them."""
        for entry in self._state.removed():
            log.warning("the model %r is unloaded: its folder was removed", entry.model.name)
            self._unload(entry.model.name, context)

    def _unload(self, name: str, context: RequestContext) -> LoadedModel:
        gone = self._state.leaving().get(name) or self._state.get(name)
        self._state.update(name, leaving=gone)  # before the servers are called: a restarting one reads it
        self._end(gone, self._transition(name, self._state.all()), context)
        self._state.update(name)
        self._clean_up(gone)
        return gone

    def _make_room(self, by: By, size: int, context: RequestContext) -> None:
        """Unload models for one of ``size`` bytes until it has a place and memory. Raises NoRoom."""
        _check_memory(size, sum(entry.size for entry in self._state.unused()))  # else all would go for nothing
        while lack := self._lack(by, size):
            if not self._evict(context):
                raise lack

    def _lack(self, by: By, size: int) -> NoRoom | None:
        count, by_targets = len(self._state.all()), len(self._state.evictable())
        if count >= self._max_models:
            return self._full(count)
        if by == "target" and by_targets >= self._most_by_target:
            return NoRoom(f"{by_targets} models of TargetModels are in use, all that LIGHTBOX_MAX_MODELS allows them")
        try:
            _check_memory(size)
        except NoRoom as lack:
            return lack
        return None

    def _evict(self, context: RequestContext) -> bool:
        """Unload the least recently used model that only a TargetModel loaded; return whether there was one."""
        if (gone := self._state.give_up_one()) is None:
            return False
        log.info("the model %r is unloaded: another one needs its place", gone.model.name)
        self._unload(gone.model.name, context)
        return True

    def versions(self, name: str, context: RequestContext) -> ServerState:
        """Return a model's versions in one of the model servers, None if no server reports them."""
        try:
            with context.within(STATUS_SECONDS):
                states = self._management.states(name, context)
        except LightboxError:
            return None
        return next((state for state in states if state is not None), None)

    def _end(self, gone: LoadedModel, transition: Transition, context: RequestContext) -> None:
        try:
            self._state.wait_until_unused(gone, context)
        except DeadlineExceeded:  # the servers go on with the unload
            with suppress(LightboxError):
                transition.unload(RequestContext(ROLLBACK_SECONDS))
            raise
        transition.unload(context)

    def _clean_up(self, gone: LoadedModel) -> None:
        shutil.rmtree(self._own_folder(gone.model.name, gone.generation), ignore_errors=True)
        self._state.forget_use(gone)

    def _clear_leftovers(self, new: LoadedModel) -> None:
        """Remove the files of earlier loads of a name, which no server uses any more; only under ``loading``."""
        name, kept = new.model.name, self._own_folder(new.model.name, new.generation)
        for folder in self._run_dir.glob("models/*"):
            if folder != kept and folder == self._own_folder(name, folder.name[-GENERATION_LENGTH:]):
                shutil.rmtree(folder, ignore_errors=True)

    def _transition(self, name: str, others: Mapping[str, LoadedModel]) -> Transition:
        return Transition(self._management, name, model_config(entry.model for entry in others.values()))

    def _loaded_before(self, name: str) -> dict[str, LoadedModel]:
        """Return the loaded models without missing ones. Raises AlreadyLoaded and NoRoom for ``name``."""
        loaded = {key: entry for key, entry in self._state.all().items() if entry.is_on_disk()}
        if name in loaded:
            place = without_folders(loaded[name].url)
            raise AlreadyLoaded(f"Model {name} is already loaded, from {place!r}")
        if len(loaded) - len(self._state.evictable()) >= self._max_models:
            raise self._full(len(loaded))
        return loaded

    @staticmethod
    def _full(count: int) -> NoRoom:
        return NoRoom(f"{count} models are loaded, as many as LIGHTBOX_MAX_MODELS allows")

    def _own_folder(self, name: str, generation: str) -> Path:
        if len(name) >= LONGEST_IN_FOLDER:  # then it is cut, and must stay unique
            digest = hashlib.sha256(name.encode()).hexdigest()
            name = f"{name[: LONGEST_IN_FOLDER - len(digest)]}{digest}"
        return self._run_dir / "models" / f"{name}-{generation}"

    def _make_room_to_unpack(self, place: Path, field: str, context: RequestContext) -> None:
        """Unload models until there is memory and space to unpack an archive. Raises NoRoom, first for one that could
        not be unpacked then either."""
        if not place.is_file() or _lack_to_unpack(most_unpacked(place), field) is None:
            return
        size = unpacked_bytes(place, field, context)
        if _lack_to_unpack(size, field) is None:
            return
        with self._state.changing(context):
            unused = self._state.unused()
            unpacked = sum(entry.size for entry in unused if self._unpacked(entry).is_dir())
            if lack := _lack_to_unpack(size, field, sum(entry.size for entry in unused), unpacked):
                raise lack
            while lack := _lack_to_unpack(size, field):
                if not self._evict(context):
                    raise lack

    def _unpacked(self, entry: LoadedModel) -> Path:
        return self._own_folder(entry.model.name, entry.generation) / UNPACKED

    def _prepared(
        self, name: str, source: Source, place: Path, own: Path, context: RequestContext
    ) -> tuple[PlannedModel, int]:
        """Return the model of ``source``, which is at ``place``, and its files' bytes; ``own`` is the load's folder."""
        folder, allowed = place, self._settings.linked_folders
        if folder.is_file():
            unpack(folder, own / UNPACKED, source.field, context)
            folder = own / UNPACKED
        models = find_model(folder, folder, source, context, allowed)
        own_code = [models.base_path / CODE, folder / CODE]
        code_dirs: Sequence[Path] = list(dict.fromkeys([*own_code, *self._shared_code_dirs]))
        named = replace(models, name=name)
        if problems := self._problems_of(named, code_dirs):
            raise _refusal(source, "; ".join(problems), folder)
        options = fitting_options(named, code_dirs, self._settings)
        base_path = own / "versions"
        show_versions(models, base_path, code_dirs)
        model = PlannedModel(
            name=name,
            base_path=base_path,
            options=options,
            names_images_only=options.for_images_only,
            code_dirs=importable(code_dirs, self._settings),
        )
        try:
            self._check_code(model)
        except UserCodeError as error:
            raise _refusal(source, str(error), folder) from error
        return model, measure(models.base_path, folder, source.field, context, allowed)

    def _problems_of(self, found: ModelOnDisk, code_dirs: Sequence[Path]) -> list[str]:
        """Return a sentence for each problem that would refuse a start with this model."""
        if unusable := unusable_versions(found, self._settings.linked_folders):
            return unusable
        try:
            misfits = list(option_problems(found, code_dirs, self._settings))
        except (ModelOptionsError, UserCodeError) as error:
            return [str(error)]
        for misfit in misfits:
            if not misfit.is_own:
                log.warning(misfit.sentence)
        return [misfit.sentence for misfit in misfits if misfit.is_own]

    def _serve(
        self,
        loaded: Mapping[str, LoadedModel],
        new: LoadedModel,
        transition: Transition,
        context: RequestContext,
    ) -> None:
        name = new.model.name
        config = model_config(entry.model for entry in (*loaded.values(), new))
        transition.load(config, version_numbers(new.model.base_path), context)
        left = self._state.leaving().get(name)
        self._state.update(name, loaded=new)
        self._clear_leftovers(new)
        if left is not None:
            self._state.forget_use(left)


def _refusal(source: Source, text: str, folder: Path) -> BadRequest:
    """Return the error about ``folder`` with the caller's path, without the targets of links and archives."""
    return BadRequest(f"{source.field}: {without_folders(text.replace(str(folder), source.shown))}")


def _lack_to_unpack(size: int, field: str, more_memory: int = 0, more_space: int = 0) -> NoRoom | None:
    """Return the error for an archive of ``size`` bytes, unpacked, that has no room; so much more could be freed."""
    what = f"{field}: the archive unpacks to {size >> 20} MiB, more than the"
    free, space = available_bytes(), free_bytes()
    if free is not None and size > free + more_memory:
        return NoRoom(f"{what} memory that is left", f"{free >> 20} MiB are")
    if size > space + more_space:
        return NoRoom(f"{what} temporary storage that is left", f"{space >> 20} MiB are free in TMPDIR")
    return None


def _check_memory(needed: int, more: int = 0) -> None:
    """Raise NoRoom unless there is memory for ``needed`` bytes; ``more`` could be freed."""
    free = available_bytes()
    if free is not None and needed > free + more:
        what = f"the model's files are {needed >> 20} MiB, more than the memory that is left"
        raise NoRoom(what, f"{free >> 20} MiB are")
