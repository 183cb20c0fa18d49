"""Loads and unloads versions so that what is aspired becomes available, and nothing is lost in between."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from model_server.loader import Loader
from model_server.servable import Servable, State
from model_server.session import Runner
from tfs_wire.status import Code, StatusError

log = logging.getLogger(__name__)

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
    """Owns every version of every model; the states that it shows are those of the real server.

    A version that is no longer aspired is unloaded only when another one serves in its place or
    nothing at all is aspired any more, and only after the calls under way in it have ended.
    """

    def __init__(self, loader: Loader, policy: LoadPolicy) -> None:
        self.changed = threading.Condition()
        self._loader = loader
        self._policy = policy
        self._models: dict[str, dict[int, Servable]] = {}
        # A load that waits for its next attempt must not keep others from theirs: the number of loads at
        # a time is bounded by the places, not by the threads.
        self._loads = ThreadPoolExecutor(_MOST_PENDING_LOADS, "load")
        self._places = threading.Semaphore(max(1, policy.load_threads))
        self._unloads = ThreadPoolExecutor(max(1, policy.unload_threads), "unload")
        self._stopping = False

    # ------------------------------------------------------------ what is wanted

    def aspire(self, name: str, versions: dict[int, str]) -> None:
        """Make ``versions`` (number to path) what model ``name`` should serve."""
        with self.changed:
            if name not in self._models and not versions:
                return
            servables = self._models.setdefault(name, {})
            for version, servable in servables.items():
                servable.aspired = servable.aspired and version in versions
            for version in sorted(versions, reverse=True):
                self._want(servables, name, version, versions[version])
            self._unload_what_is_replaced(name)
            self.changed.notify_all()

    def _want(self, servables: dict[int, Servable], name: str, version: int, path: str) -> None:
        # A version is known by its number alone: another base path for it changes nothing while it is aspired.
        current = servables.get(version)
        if current is not None and current.aspired:
            return
        if current is not None and current.state != State.END:
            current.aspired = True
            current.comes_back = path if current.state == State.UNLOADING or path != current.path else None
            return
        servables[version] = servable = Servable(name, version, path, self.changed)
        self._loads.submit(self._load, servable)

    # ---------------------------------------------------------------- loading

    def _load(self, servable: Servable) -> None:
        error: StatusError | None = None
        try:
            self._loader.check(servable)
            servable.session = self._attempts(servable)
            log.info("Successfully loaded servable version %s", servable)
        except StatusError as failure:
            log.error("Loading servable: %s failed: %s", servable, failure)
            error = failure
        except Exception as failure:  # a fault of ours must not leave the version LOADING for ever
            log.exception("Loading servable: %s failed", servable)
            error = StatusError(Code.INTERNAL, str(failure))
        with self.changed:  # in one hold: nobody is to see a state that is left at once
            servable.move(State.AVAILABLE if error is None else State.END, error)
            self._unload_what_is_replaced(servable.name)
            self._load_again(servable)

    def _attempts(self, servable: Servable) -> Runner:
        for attempt in range(self._policy.max_retries + 1):
            try:
                with self._places:
                    servable.move(State.LOADING)
                    return self._loader.load(servable)
            except StatusError as error:
                if attempt == self._policy.max_retries or not self._wait_to_retry(servable, error):
                    raise
        raise AssertionError("unreachable")

    def _wait_to_retry(self, servable: Servable, error: StatusError) -> bool:
        """Return whether another attempt is still wanted after the pause."""
        log.error("Loading servable: %s failed: %s", servable, error)
        with self.changed:
            given_up = self.changed.wait_for(
                lambda: self._stopping or not servable.aspired or servable.comes_back is not None,
                max(0.0, self._policy.retry_seconds),
            )
        return not given_up

    # -------------------------------------------------------------- unloading

    def _unload_what_is_replaced(self, name: str) -> None:
        """Start unloading; the caller holds ``changed``."""
        servables = self._models[name].values()
        aspired = [servable for servable in servables if servable.aspired]
        if aspired and not any(servable.state == State.AVAILABLE for servable in aspired):
            return
        for servable in servables:
            if servable.state == State.AVAILABLE and (not servable.aspired or servable.comes_back is not None):
                servable.move(State.UNLOADING)
                self._unloads.submit(self._unload, servable)

    def _unload(self, servable: Servable) -> None:
        servable.drain()
        if servable.session is not None:
            servable.session.close()
        servable.session = None
        log.info("Done unloading servable version %s", servable)
        with self.changed:
            servable.move(State.END)
            self._load_again(servable)

    def _load_again(self, ended: Servable) -> None:
        """Load a version that came back before it had ended; the caller holds ``changed``."""
        servables = self._models[ended.name]
        path = ended.comes_back if ended.state == State.END and ended.aspired else None
        if path is not None and servables.get(ended.version) is ended:
            servables[ended.version] = fresh = Servable(ended.name, ended.version, path, self.changed)
            self._loads.submit(self._load, fresh)

    # ----------------------------------------------------------------- asking

    def enter(self, name: str, version: int | None) -> tuple[Servable, Runner]:
        """Return the version (the largest available one for None) and its session, with a call counted in.

        The caller must call ``servable.leave()``. Raises NOT_FOUND as the real server words it.
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

    def wait_until_settled(self, names: list[str], timeout: float | None = None) -> bool:
        """Wait until every aspired version of each model is available or has ended with an error."""
        with self.changed:
            return self.changed.wait_for(lambda: all(map(self._settled, names)), timeout)

    def _settled(self, name: str) -> bool:
        servables = [servable for servable in self._models.get(name, {}).values() if servable.aspired]
        return bool(servables) and all(servable.state in _SETTLED for servable in servables)

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
        self._loads.shutdown(wait=False, cancel_futures=True)
        self._unloads.shutdown(wait=False, cancel_futures=True)
