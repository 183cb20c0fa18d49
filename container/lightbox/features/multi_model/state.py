"""The list of loaded models: one file in the run directory, shared by all workers.

A writer holds a lock file. Readers need no lock: the list is replaced atomically, and read again only after it was
replaced.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from lightbox.base.error_texts import echo
from lightbox.base.errors import BadRequest, DeadlineExceeded, ModelLoading, ModelNotFound
from lightbox.base.machine.shared_files import Document, held, hold, locked, release, replace_file, try_lock
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.logs import log
from lightbox.model.catalogue import PlannedModel
from lightbox.model_files.layout import is_version
from lightbox.model_runtime.formats import holds_model

By = Literal["name", "path", "target"]
"""The cause of a load: POST /models, whose caller chose the name; a load of the Open Inference Protocol; or only a
TargetModel, for which a caller needs no more than the right to predict."""


class LoadedModel(BaseModel):
    """A loaded model: its plan, its path as the caller wrote it, and the id of its load.

    ``path`` is where that leads, after links: what tells models apart. ``size`` is the bytes of its files.
    """

    model_config = ConfigDict(frozen=True)

    model: PlannedModel
    url: str
    generation: str
    path: Path
    by: By = "name"
    size: int = 0

    def is_on_disk(self) -> bool:
        """Return whether a model server could load it: its versions' folder may have been removed."""
        try:
            return any(is_version(entry.name) and holds_model(entry) for entry in self.model.base_path.iterdir())
        except FileNotFoundError:
            return False
        except OSError:  # an unreachable share
            return True


def not_loaded(name: str) -> ModelNotFound:
    """Return the error for a model, or a target, that is not loaded; it begins like that of AWS's container."""
    return ModelNotFound(
        f"Model {echo(name)} is not loaded yet. POST /models loads a model; POST /endpoints/<any name>/invocations "
        "loads its TargetModel on first use"
    )


def being_loaded(name: str) -> ModelLoading:
    """Return the error for a model, or a target, that is being loaded."""
    return ModelLoading(f"the model {name!r} is being loaded; try again")


class _File(BaseModel):
    loaded: dict[str, LoadedModel] = {}
    leaving: dict[str, LoadedModel] = {}


class LoadedModels:
    """The loaded models, for all workers."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._document = Document(run_dir / "loaded_models.json", TypeAdapter(_File), _File())
        self._listeners: list[Callable[[str], None]] = []
        self._reading = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._loaded: Mapping[str, LoadedModel] = {}
        self._by_path: Mapping[Path, LoadedModel] = {}

    @cached_property
    def secret(self) -> bytes:
        """A secret of the processes of this run."""
        path = self._run_dir / "secret"
        with held(self._run_dir, os.O_RDONLY):
            if not path.exists():
                replace_file(path, secrets.token_bytes(32))
            return path.read_bytes()

    def find(self, name: str | None) -> PlannedModel:
        """Return a model; there is no default one. Raises BadRequest, Unavailable and ModelNotFound."""
        return self._wanted(name).model

    def _wanted(self, name: str | None) -> LoadedModel:
        if name is None:
            raise BadRequest(
                "this endpoint serves many models: name one with X-Amzn-SageMaker-Target-Model "
                "or post to /models/<name>/invoke"
            )
        return self.get(name)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call a listener with the name of each added or removed model, before ``find`` returns it."""
        self._listeners.append(listener)

    def get(self, name: str) -> LoadedModel:
        """Return a loaded model. Raises Unavailable for one that is being loaded, else ModelNotFound."""
        if (found := self.all().get(name)) is not None:
            return found
        if self.is_being_loaded(name):
            raise being_loaded(name)
        if (found := self.all().get(name)) is not None:  # listed just before its load ended
            return found
        raise not_loaded(name)

    def at(self, path: Path) -> LoadedModel | None:
        """Return the model that was loaded from a place, after links; rather one whose caller chose no name."""
        self.all()
        return self._by_path.get(path)

    def is_being_loaded(self, name: str) -> bool:
        """Return whether a model of this name is being loaded, or one from this path."""
        try:
            lock = hold(self._loading_file(name), shared=True, flags=os.O_RDWR)
        except FileNotFoundError:
            return False
        if lock is not None:  # left by a worker that was killed
            release(lock)
        return lock is None

    def all(self) -> Mapping[str, LoadedModel]:
        """Return the models that are loaded now, by name."""
        stamp = self._document.stamp()
        if stamp != self._stamp:
            with self._reading:
                self._read(stamp)
        return self._loaded

    def _read(self, stamp: tuple[int, int] | None) -> None:
        before, after = self._loaded, self._document.read().loaded
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                for listener in self._listeners:
                    listener(name)
        chosen_last = sorted(after.values(), key=lambda entry: entry.by != "name")
        self._by_path = {entry.path: entry for entry in chosen_last}
        # Last: until then other threads wait, so none uses cached facts of a removed model.
        self._loaded, self._stamp = after, stamp

    def removed(self) -> list[LoadedModel]:
        """Return the models that were removed from the disk: only servers that have loaded them can answer."""
        return [entry for entry in self.all().values() if not entry.is_on_disk()]

    def loadable(self) -> list[PlannedModel]:
        """Return the models for a starting model server, and drop those that are not on the disk any more."""
        for entry in self.removed():
            log(f"the model {entry.model.name!r} is not loaded any more: its folder was removed")
            self.update(entry.model.name, leaving=entry)
        return [entry.model for entry in self.all().values()]

    def leaving(self) -> Mapping[str, LoadedModel]:
        """Return the models whose unload has begun and not ended, by name. They get no new requests."""
        return self._document.read().leaving

    def update(self, name: str, loaded: LoadedModel | None = None, leaving: LoadedModel | None = None) -> None:
        """Set the loaded and the leaving model of ``name``, None for none; other names are unchanged."""
        with held(self._run_dir, os.O_RDONLY):
            now = self._document.read()
            changed = _File(loaded=dict(now.loaded), leaving=dict(now.leaving))
            for models, model in ((changed.loaded, loaded), (changed.leaving, leaving)):
                models.pop(name, None)
                if model is not None:
                    models[name] = model
            self._document.write(changed)

    @contextmanager
    def using(self, name: str | None) -> Iterator[PlannedModel]:
        """Hold a model during a request: it is not unloaded meanwhile. Raises as ``find`` does.

        A request holds a shared lock on a file of the load; an unload waits for all of them. The file's time is that
        of the last use.
        """
        while (use := self.begin_use(loaded := self._wanted(name))) is None:
            pass  # unloaded a moment ago; the listed one, if any, is a later load
        try:
            yield loaded.model
        finally:
            release(use)

    def begin_use(self, loaded: LoadedModel) -> int | None:
        """Return the lock of a use, which the caller releases; None if the model is not listed any more."""
        use = try_lock(self._use_file(loaded), shared=True)
        if use is None:
            return None
        listed = self.all().get(loaded.model.name)
        if listed is not None and listed.generation == loaded.generation:  # it may be kept for good since
            now = time.monotonic_ns()  # which no step of the wall clock moves
            os.utime(use, ns=(now, now))
            return use
        release(use)
        self.forget_use(loaded)
        return None

    def give_up_one(self) -> LoadedModel | None:
        """Take the least recently used model that only a TargetModel loaded off the list, if no request uses it.

        The caller unloads it. Returns None if there is none. Only while ``changing`` is held.
        """
        for entry in sorted(self.evictable(), key=self._last_use):
            if (lock := try_lock(self._use_file(entry))) is not None:
                try:
                    self.update(entry.model.name, leaving=entry)
                finally:
                    release(lock)
                return entry
        return None

    def evictable(self) -> list[LoadedModel]:
        """Return the models that only a TargetModel loaded: they go when another needs their place."""
        return [entry for entry in self.all().values() if entry.by == "target"]

    def unused(self) -> list[LoadedModel]:
        """Return those of ``evictable`` that no request uses at this moment."""
        result = []
        for entry in self.evictable():
            if not self._use_file(entry).exists():  # a lock would create it, with the time of a use
                result.append(entry)
            elif (lock := try_lock(self._use_file(entry))) is not None:
                release(lock)
                result.append(entry)
        return result

    def _last_use(self, entry: LoadedModel) -> int:
        try:
            return self._use_file(entry).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def wait_until_unused(self, gone: LoadedModel, context: RequestContext) -> None:
        """Wait until all requests have ended that used a model before it was removed from the list.

        Raises DeadlineExceeded at the context's deadline.
        """
        late = DeadlineExceeded(f"requests of the model {gone.model.name!r} are still in progress; try again")
        with locked(self._use_file(gone), context, late):
            pass

    def forget_use(self, gone: LoadedModel) -> None:
        """Remove the lock file of a load that no request can use any more."""
        self._use_file(gone).unlink(missing_ok=True)

    def _use_file(self, loaded: LoadedModel) -> Path:
        return self._run_dir / f"using-{loaded.generation}.lock"

    def loading(self, name: str, context: RequestContext, shown: str = "") -> AbstractContextManager[object]:
        """Hold the lock for loading a name, or from a path; others are not blocked. ``shown`` is for errors.

        Raises Unavailable if it is not free by the request's deadline.
        """
        return locked(self._loading_file(name), context, being_loaded(shown or name))

    def _loading_file(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()  # a name may be as long as a file's
        return self._run_dir / f"loading-{digest}.lock"

    def changing(self, context: RequestContext) -> AbstractContextManager[object]:
        """Hold the lock for loads and unloads, which run one after another in all workers.

        Raises Unavailable if it is not free by the request's deadline.
        """
        busy = ModelLoading("another model is being loaded or unloaded; try again")
        return locked(self._run_dir / "loaded_models.lock", context, busy)
