"""Which models are loaded: one file in the run directory, the truth for all workers.

A writer holds a lock: a file beside it that exists while it is held. Readers take none: the list is
replaced as a whole, and a reader looks again only when it is another file than last time.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from lightbox.core.errors import BadRequest, DeadlineExceeded, ModelNotFound, Unavailable
from lightbox.core.request_context import RequestContext
from lightbox.formats import holds_model
from lightbox.machine.shared_files import Document, held, locked, release, try_lock
from lightbox.model.catalogue import PlannedModel
from lightbox.telemetry.logs import log


class LoadedModel(BaseModel):
    """A loaded model: what it is, where the caller said it was, and which load of that name this is."""

    model_config = ConfigDict(frozen=True)

    model: PlannedModel
    url: str
    generation: str

    def is_on_disk(self) -> bool:
        """Tell whether a model server could load it: somebody may have removed the folder that its versions lie in."""
        try:
            return any(map(holds_model, self.model.base_path.iterdir()))
        except FileNotFoundError:
            return False
        except OSError:  # of a share that is away nothing is known
            return True


def not_loaded(name: str) -> ModelNotFound:
    """Return the error for a model, or a target, that is not loaded; it begins as that of AWS's container."""
    return ModelNotFound(
        f"Model {name} is not loaded yet. POST /models loads a model; POST /endpoints/<any name>/invocations loads its "
        "TargetModel on first use"
    )


class _File(BaseModel):
    loaded: dict[str, LoadedModel] = {}
    leaving: dict[str, LoadedModel] = {}


class LoadedModels:
    """The models that are loaded, for all workers."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._document = Document(run_dir / "loaded_models.json", TypeAdapter(_File), _File())
        self._listeners: list[Callable[[str], None]] = []
        self._reading = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._loaded: Mapping[str, LoadedModel] = {}

    def find(self, name: str | None) -> PlannedModel:
        """Return a model; there is no default one here. Raises BadRequest and ModelNotFound."""
        return self._wanted(name).model

    def _wanted(self, name: str | None) -> LoadedModel:
        if name is None:
            raise BadRequest(
                "this endpoint serves many models: name one with X-Amzn-SageMaker-Target-Model "
                "or post to /models/<name>/invoke"
            )
        return self.get(name)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have a listener hear the name of each model that comes or goes, before it can be found."""
        self._listeners.append(listener)

    def get(self, name: str) -> LoadedModel:
        """Return a loaded model, or raise ModelNotFound."""
        found = self.all().get(name)
        if found is None:
            raise not_loaded(name)
        return found

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
        # Last: until then other threads wait, and none uses what was remembered of a model that is gone.
        self._loaded, self._stamp = after, stamp

    def removed(self) -> list[LoadedModel]:
        """Return the models that somebody has removed from the disk: servers that have them answer, no other can."""
        return [entry for entry in self.all().values() if not entry.is_on_disk()]

    def loadable(self) -> list[PlannedModel]:
        """Return what a model server that is about to start is to have, and forget what is not on the disk any more."""
        for entry in self.removed():
            log(f"the model {entry.model.name!r} is not loaded any more: its folder was removed")
            self.update(entry.model.name, leaving=entry)
        return [entry.model for entry in self.all().values()]

    def leaving(self) -> Mapping[str, LoadedModel]:
        """Return the models whose unload was begun and has not ended yet, by name. They are not invoked any more."""
        return self._document.read().leaving

    def update(self, name: str, loaded: LoadedModel | None = None, leaving: LoadedModel | None = None) -> None:
        """Say what is loaded as ``name`` and what is leaving, None for nothing; other names stay as they are."""
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
        """Hold a model while it is invoked: it is not unloaded meanwhile. Raises as ``find`` does.

        A request of a model holds a shared lock on a file of that load; an unload waits for all of them.
        """
        while (use := self._begin_use(loaded := self._wanted(name))) is None:
            pass  # it was unloaded a moment ago; what is listed now, if anything, is a later load
        try:
            yield loaded.model
        finally:
            release(use)

    def _begin_use(self, loaded: LoadedModel) -> int | None:
        use = try_lock(self._use_file(loaded), shared=True)
        if use is None or self.all().get(loaded.model.name) == loaded:
            return use
        release(use)
        self.forget_use(loaded)
        return None

    def wait_until_unused(self, gone: LoadedModel, context: RequestContext) -> None:
        """Return when all have ended that invoked a model before it was taken from the list.

        Raises DeadlineExceeded when they take longer than the context allows.
        """
        late = DeadlineExceeded(f"requests of the model {gone.model.name!r} are still in progress; try again")
        with locked(self._use_file(gone), context, late):
            pass

    def forget_use(self, gone: LoadedModel) -> None:
        """Remove what told of a load's use: nobody begins to use it any more."""
        self._use_file(gone).unlink(missing_ok=True)

    def _use_file(self, loaded: LoadedModel) -> Path:
        return self._run_dir / f"using-{loaded.generation}.lock"

    def loading(self, name: str, context: RequestContext) -> AbstractContextManager[object]:
        """Hold the lock under which the model of a name is made ready; others are not held up by it.

        Raises Unavailable when somebody else holds it until the request's deadline.
        """
        lock = hashlib.sha256(name.encode()).hexdigest()  # a name may be as long as that of a file
        busy = Unavailable(f"the model {name!r} is being loaded; try again")
        return locked(self._run_dir / f"loading-{lock}.lock", context, busy)

    def changing(self, context: RequestContext) -> AbstractContextManager[object]:
        """Hold the lock under which models are loaded and unloaded, one after another in all workers.

        Raises Unavailable when others hold it until the request's deadline.
        """
        busy = Unavailable("another model is being loaded or unloaded; try again")
        return locked(self._run_dir / "loaded_models.lock", context, busy)
