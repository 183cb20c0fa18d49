"""Loads and unloads versions until the aspired ones are available, without gaps in between."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server.servable import Servable, State
from lightbox.model_runtime.server.servable_loader import Loader
from lightbox.model_runtime.wire.status import Code, StatusError

log = logging.getLogger(__name__)

STEP_SECONDS = 0.1
"""tensorflow_model_server's pause before each step, for ``--as_tensorflow_serving``. A version is LOADING or ends this
long after the request, and meanwhile an unwanted one still answers: clients must cope with both."""

_SETTLED = (State.AVAILABLE, State.END)
_MOST_PENDING_LOADS = 64


@dataclass(frozen=True)
class LoadPolicy:
    """How often and on how many threads a load is tried."""

    load_threads: int = 0
    unload_threads: int = 0
    max_retries: int = 5
    retry_seconds: float = 60.0


class Manager:
    """Owns every version of every model; their states are tensorflow_model_server's, in its order.

    A thread works towards the aspired versions step by step: each step starts one unload or, with a free thread, one
    load, the newest version first. A version that is no longer aspired is unloaded only when another one serves in its
    place or no version is aspired any more, and only after its calls in progress have ended.
    """

    def __init__(self, loader: Loader, policy: LoadPolicy) -> None:
        self.changed = threading.Condition()
        self.step_seconds = 0.0
        self.first_only = False
        """Whether a model is settled, and gets no further version, once its newest loadable version is available."""
        self._loader = loader
        self._policy = policy
        self._models: dict[str, dict[int, Servable]] = {}
        # A load that waits for its next attempt must not block others: this count limits concurrent loads instead of
        # the number of threads.
        self._loads = ThreadPoolExecutor(_MOST_PENDING_LOADS, "load")
        self._loading = 0
        self._unloads = ThreadPoolExecutor(max(1, policy.unload_threads), "unload")
        self._stopping = False
        # Not ``changed``: every move notifies it.
        self._awake = threading.Event()
        threading.Thread(target=self._run, name="manager", daemon=True).start()

    # ---------------------------------------------------------- aspired versions

    def aspire(self, name: str, versions: dict[int, str]) -> None:
        """Make ``versions`` (number to path) the aspired ones of model ``name``; return at once."""
        with self.changed:
            if name not in self._models and not versions:
                return
            servables = self._models.setdefault(name, {})
            for version, servable in servables.items():
                if version not in versions:
                    servable.aspired, servable.comes_back = False, None
                    servable.leaving = servable.leaving or not versions
            for version, path in versions.items():
                self._want(servables, name, version, path)
            if any(map(_is_due, servables.values())):
                self._awake.set()
                self.changed.notify_all()  # a load that waits for its next attempt may be given up

    def _want(self, servables: dict[int, Servable], name: str, version: int, path: str) -> None:
        current = servables.get(version)
        if current is None:
            servables[version] = Servable(name, version, path, self.changed)
        # A version is identified by its number alone: a new base path changes nothing while it is aspired.
        elif not current.aspired:
            stays = current.state < State.UNLOADING and path == current.path and not current.leaving
            current.aspired, current.comes_back = True, None if stays else path

    # -------------------------------------------------------------------- steps

    def _run(self) -> None:
        while True:
            self._awake.wait()
            self._awake.clear()
            if self._stopping:
                return
            time.sleep(self.step_seconds)
            if self._step():
                self._awake.set()

    def _step(self) -> bool:
        """Do one step; return whether there was one."""
        with self.changed:
            if self._stopping:
                return False
            if self._restart_returned():
                return True
            for servable in self._to_unload():
                servable.move(State.UNLOADING)
                self._unloads.submit(self._unload, servable)
                return True
            for servable in self._to_load():
                self._loading += 1
                servable.move(State.LOADING)
                self._loads.submit(self._load, servable)
                return True
        return False

    def _restart_returned(self) -> bool:
        """End versions that need not be loaded any more, or else restart returned models whose versions have ended."""
        servables = [servable for versions in self._models.values() for servable in versions.values()]
        early = [servable for servable in servables if servable.state == State.START and _is_unwanted(servable)]
        for servable in early:
            servable.move(State.END)
        back = [servable for servable in servables if servable.comes_back is not None]
        live = {servable.name for servable in back if servable.state != State.END}
        ready = [] if early else [servable for servable in back if servable.name not in live]
        for ended in ready:
            path = ended.comes_back or ended.path
            self._models[ended.name][ended.version] = Servable(ended.name, ended.version, path, self.changed)
        return bool(early or ready)

    def _to_unload(self) -> Iterator[Servable]:
        for servables in self._models.values():
            aspired = [servable for servable in servables.values() if servable.aspired]
            if aspired and not any(servable.state == State.AVAILABLE for servable in aspired):
                continue
            for _, servable in sorted(servables.items()):
                if servable.state == State.AVAILABLE and _is_unwanted(servable):
                    yield servable

    def _to_load(self) -> Iterator[Servable]:
        def begun(servables: dict[int, Servable]) -> list[Servable]:
            return [servable for servable in servables.values() if servable.state != State.START]

        for servables in sorted(self._models.values(), key=lambda servables: len(begun(servables))):
            if self.first_only and any(servable.state != State.END for servable in begun(servables)):
                continue
            for _, servable in sorted(servables.items(), reverse=True):
                if servable.state == State.START and self._may_load():
                    yield servable

    def _may_load(self) -> bool:
        return self._loading < max(1, self._policy.load_threads)

    def continue_in_steps(self) -> None:
        """Load the versions that ``first_only`` has left, and act from now on, as tensorflow_model_server does."""
        with self.changed:
            self.first_only, self.step_seconds = False, STEP_SECONDS
        self._awake.set()

    # ---------------------------------------------------- loading and unloading

    def _load(self, servable: Servable) -> None:
        error: StatusError | None = None
        try:
            self._loader.check(servable)
            log.info("Loading servable version %s", servable)
            servable.session = self._attempts(servable)
            log.info("Successfully loaded servable version %s", servable)
        except StatusError as failure:
            log.error("Loading servable: %s failed: %s", servable, failure)
            error = failure
        except Exception as failure:  # a bug must not leave the version LOADING forever
            log.exception("Loading servable: %s failed", servable)
            error = StatusError(Code.INTERNAL, str(failure))
        with self.changed:
            self._loading -= 1
            servable.move(State.AVAILABLE if error is None else State.END, error)
        self._awake.set()

    def _attempts(self, servable: Servable) -> Runner:
        for attempt in range(self._policy.max_retries + 1):
            try:
                return self._loader.load(servable)
            except StatusError as error:
                if attempt == self._policy.max_retries or not self._wait_to_retry(servable, error):
                    raise
        raise AssertionError("unreachable")

    def _wait_to_retry(self, servable: Servable, error: StatusError) -> bool:
        """Let others load during the pause; return whether another attempt is still wanted afterwards."""
        log.error("Loading servable: %s failed: %s", servable, error)

        def given_up() -> bool:
            return self._stopping or _is_unwanted(servable)

        with self.changed:
            self._loading -= 1
            self.changed.notify_all()
            self._awake.set()
            self.changed.wait_for(given_up, max(0.0, self._policy.retry_seconds))
            self.changed.wait_for(lambda: given_up() or self._may_load())
            self._loading += 1
            return not given_up()

    def _unload(self, servable: Servable) -> None:
        servable.drain()
        if servable.session is not None:
            servable.session.close()
        servable.session = None
        log.info("Done unloading servable version %s", servable)
        servable.move(State.END)
        self._awake.set()

    # ---------------------------------------------------------------- queries

    def enter(self, name: str, version: int | None) -> tuple[Servable, Runner]:
        """Return the version (the largest available one for None) and its session, and count the call.

        The caller must call ``servable.leave()``. Raises NOT_FOUND with tensorflow_model_server's text.
        """
        with self.changed:
            servable = self._find(name, version)
            if servable is None:
                wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
                raise StatusError(Code.NOT_FOUND, f"Servable not found for request: {wanted}")
            return servable, servable.enter()

    def _find(self, name: str, version: int | None) -> Servable | None:
        servables = self._models.get(name, {})
        if version is not None:
            servable = servables.get(version)
            return servable if servable and servable.state == State.AVAILABLE else None
        ready = [number for number, servable in servables.items() if servable.state == State.AVAILABLE]
        return servables[max(ready)] if ready else None

    def states(self, name: str) -> list[Servable]:
        """Return every version that model ``name`` ever had, newest number first."""
        with self.changed:
            return [servable for _, servable in sorted(self._models.get(name, {}).items(), reverse=True)]

    def knows(self, name: str) -> bool:
        """Return whether model ``name`` ever had a version."""
        return bool(self._models.get(name))

    def wait_until_settled(self, names: list[str], timeout: float | None = None) -> bool:
        """Wait until every aspired version of each model is available or has failed; see ``first_only``."""
        with self.changed:
            return self.changed.wait_for(lambda: all(map(self._settled, names)), timeout)

    def _settled(self, name: str) -> bool:
        servables = [servable for servable in self._models.get(name, {}).values() if servable.aspired]
        if self.first_only and any(servable.state == State.AVAILABLE for servable in servables):
            return True
        settled = [servable.state in _SETTLED and servable.comes_back is None for servable in servables]
        return bool(settled) and all(settled)

    def first_settled(self, name: str, since: int, only_wanted: bool = False) -> Servable | None:
        """Return the newest version that has become available or ended after the moment ``since``.

        ``only_wanted`` skips versions that are being unloaded, for good or to be loaded again.
        """
        moved = [servable for servable in self.states(name) if servable.moved > since]
        settled = [servable for servable in moved if servable.state in _SETTLED]
        return next((servable for servable in settled if not (only_wanted and _is_unwanted(servable))), None)

    def failures(self, names: list[str]) -> list[Servable]:
        """Return, for each model without an available version, the newest one that failed."""
        failed = []
        for name in names:
            aspired = [servable for servable in self.states(name) if servable.aspired]
            broken = [servable for servable in aspired if servable.error is not None]
            if broken and not any(servable.state == State.AVAILABLE for servable in aspired):
                failed.append(broken[0])
        return failed

    def stop(self) -> None:
        """Give up pending loads; sessions end with the process."""
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
        self._awake.set()
        self._loads.shutdown(wait=False, cancel_futures=True)
        self._unloads.shutdown(wait=False, cancel_futures=True)


def _is_unwanted(servable: Servable) -> bool:
    """Return whether a version must end, for good or to be loaded again."""
    return not servable.aspired or servable.comes_back is not None


def _is_due(servable: Servable) -> bool:
    """Return whether a version needs a step."""
    if servable.state == State.END:
        return servable.comes_back is not None
    return servable.state == State.START or _is_unwanted(servable)
