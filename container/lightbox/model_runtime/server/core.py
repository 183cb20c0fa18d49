"""The server without its transports: configuration, labels, polling, and finding a model for a call."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server.manager import Manager
from lightbox.model_runtime.server.model_config import (
    ModelConfig,
    ModelServerConfig,
    check_names_and_paths,
    check_platforms,
)
from lightbox.model_runtime.server.servable import Servable, State, moment
from lightbox.model_runtime.server.storage import choose, versions_on_disk
from lightbox.model_runtime.wire.messages import model_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

log = logging.getLogger(__name__)


class ServerCore:
    """Keeps the manager up to date with the configuration and the disk."""

    def __init__(
        self, manager: Manager, allow_labels_for_unavailable: bool = False, as_tensorflow_serving: bool = False
    ) -> None:
        """``as_tensorflow_serving``: wait and block in the same cases as tensorflow_model_server.

        New models are loaded by the next ``poll`` instead of at once, a reload waits for them without a limit, and
        while one base path is missing no model gets a version.
        """
        self.manager = manager
        self._as_tensorflow_serving = as_tensorflow_serving
        self._allow_labels_for_unavailable = allow_labels_for_unavailable
        self._reload_lock = threading.Lock()
        self._config_lock = threading.Lock()
        self._models: dict[str, ModelConfig] = {}
        self._labels: dict[str, dict[str, int]] = {}
        self._without_versions: set[str] = set()

    # ----------------------------------------------------------- configuration

    def apply(self, config: ModelServerConfig, at_once: bool = False) -> list[str]:
        """Make ``config`` what is served; return the names that are new in it.

        Nothing changes if it does not pass the checks (StatusError). What is no longer in it is going to
        be unloaded; the rest is brought about now, or by the next ``poll`` as in TensorFlow Serving unless ``at_once``.
        """
        check_names_and_paths(config)
        check_platforms(config)
        with self._config_lock:
            models = {model.name: model for model in config.model_config_list.config}
            self._labels = self._checked_labels(models)
            before, self._models = self._models, models
            for name in set(before) - set(models):
                self.manager.aspire(name, {})
            self._without_versions &= set(models)
            added = [name for name in models if name not in before]
            if at_once or not self._as_tensorflow_serving:
                self._aspire_what_is_on_disk()
            else:
                for name in added:
                    self._look(models[name])
            return added

    def with_versions(self) -> list[str]:
        """Return the names of the models that had versions on disk at the last poll."""
        return [name for name in self._models if name not in self._without_versions]

    def reload(self, config: ModelServerConfig, seconds: float | None) -> None:
        """Apply ``config`` and wait until each new model has one version available, if it has any on disk.

        One at a time. Raises UNKNOWN if a new version has failed, DEADLINE_EXCEEDED after ``seconds``; the other models
        are loaded anyway. As TensorFlow Serving it waits for every model, ignores deadlines, and treats a version of an
        earlier load that ends meanwhile as a failure.
        """
        if self._as_tensorflow_serving:
            seconds = None
        end = None if seconds is None else time.monotonic() + seconds
        if not self._reload_lock.acquire(timeout=-1 if seconds is None else max(0.0, seconds)):
            raise _still_loading()
        try:
            since = moment()
            names = [name for name in self.apply(config) if not self._is_given_up(name)]
            self._wait(names, since, end)
            self._check_new(names, since)
        finally:
            self._reload_lock.release()

    def _wait(self, names: list[str], since: int, end: float | None) -> None:
        def decided(name: str) -> bool:
            return self._is_given_up(name) or self._settled(name, since) is not None

        with self.manager.changed:
            left = None if end is None else end - time.monotonic()
            if not self.manager.changed.wait_for(lambda: all(map(decided, names)), left):
                raise _still_loading()

    def _settled(self, name: str, since: int) -> Servable | None:
        return self.manager.first_settled(name, since, only_wanted=not self._as_tensorflow_serving)

    def _is_given_up(self, name: str) -> bool:
        return name in self._without_versions and not self._as_tensorflow_serving

    def _check_new(self, names: list[str], since: int) -> None:
        settled = [self._settled(name, since) for name in names]
        ended = [servable for servable in settled if servable is not None and servable.state == State.END]
        if ended:
            raise _not_available(ended, "model")

    def _checked_labels(self, models: dict[str, ModelConfig]) -> dict[str, dict[str, int]]:
        labels = {name: dict(model.version_labels) for name, model in models.items() if model.version_labels}
        for name, versions in labels.items():
            for label, version in versions.items():
                self._check_label(name, label, version)
        return labels

    def _check_label(self, name: str, label: str, version: int) -> None:
        is_new = label not in self._labels.get(name, {})
        if self._allow_labels_for_unavailable and is_new:
            return
        states = {servable.version: servable.state for servable in self.manager.states(name)}
        if states.get(version) != State.AVAILABLE:
            text = f"Request to assign label to version {version} of model {name}"
            text += ", which is not currently available for inference"
            raise StatusError(Code.FAILED_PRECONDITION, text)

    def settled(self, names: list[str], timeout: float | None) -> bool:
        """Wait until every load of these models has ended, with or without success; return whether it has."""
        return self.manager.wait_until_settled(names, timeout)

    def check_loaded(self, names: list[str]) -> None:
        """Raise UNKNOWN with the error of each model that has no available version."""
        failed = self.manager.failures(names)
        if failed:
            raise _not_available(failed, "servable")

    # ----------------------------------------------------------------- polling

    def poll(self) -> list[str]:
        """Read every base path once; return the names of the models with versions."""
        with self._config_lock:
            self._aspire_what_is_on_disk()
            return self.with_versions()

    def _aspire_what_is_on_disk(self) -> None:
        found = {name: self._look(model) for name, model in self._models.items()}
        if self._as_tensorflow_serving and None in found.values():  # a poll that fails in one place changes nothing
            found.clear()
        for name, wanted in found.items():
            if wanted is not None:
                self.manager.aspire(name, wanted)
        with self.manager.changed:
            self.manager.changed.notify_all()

    def _look(self, model: ModelConfig) -> dict[int, str] | None:
        """Return the wanted versions on disk, None without the base path."""
        versions = _wanted_on_disk(model)
        # Only now: a waiting reload reads this at any time, without the lock.
        if versions:
            self._without_versions.discard(model.name)
        else:
            self._without_versions.add(model.name)
        return versions

    # ----------------------------------------------------------------- queries

    def enter(self, spec: model_pb2.ModelSpec) -> tuple[Servable, Runner]:
        """Return the version of a call and its session; the caller calls ``servable.leave()``."""
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        return self.manager.enter(spec.name, self._version(spec))

    @contextmanager
    def acquire(self, spec: model_pb2.ModelSpec) -> Iterator[tuple[Servable, Runner]]:
        """Enter the version of a call for the length of a block."""
        servable, session = self.enter(spec)
        try:
            yield servable, session
        finally:
            servable.leave()

    def _version(self, spec: model_pb2.ModelSpec) -> int | None:
        choice = spec.WhichOneof("version_choice")
        if choice == "version":
            return int(spec.version.value)
        if choice == "version_label":
            version = self._labels.get(spec.name, {}).get(spec.version_label)
            if version is None:
                raise invalid(f"Unrecognized servable version label: {spec.version_label}")
            return version
        return None

    def status(self, spec: model_pb2.ModelSpec) -> list[Servable]:
        """Return the versions of a status call (labels are ignored, as in tensorflow_model_server)."""
        states = self.manager.states(spec.name)
        if spec.WhichOneof("version_choice") == "version":
            version = int(spec.version.value)
            states = [servable for servable in states if servable.version == version]
            if not states:
                raise StatusError(Code.NOT_FOUND, f"Could not find version {version} of model {spec.name}")
        if not states:
            raise StatusError(Code.NOT_FOUND, f"Could not find any versions of model {spec.name}")
        return states


def _wanted_on_disk(model: ModelConfig) -> dict[int, str] | None:
    try:
        present = versions_on_disk(model.name, model.base_path)
    except StatusError as error:
        text = "FileSystemStoragePathSource encountered a filesystem access error: %s"
        log.error(text, error.message)
        return None
    chosen = choose(present, model)
    if not chosen:
        text = "No versions of servable %s found under base path %s. "
        text += "Did you forget to name your leaf directory as a number (eg. '/1/')?"
        log.warning(text, model.name, model.base_path)
    return chosen


def _not_available(ended: list[Servable], what: str) -> StatusError:
    """Return the error about ended versions; an unloaded one has no reason."""
    reasons = [f" due to error: {servable.error}" if servable.error is not None else "" for servable in ended]
    texts = "".join(f"{{{servable}{reason}}}, " for servable, reason in zip(ended, reasons, strict=True))
    return StatusError(Code.UNKNOWN, f"{len(ended)} {what}(s) did not become available: {{{texts}}}")


def _still_loading() -> StatusError:
    return StatusError(Code.DEADLINE_EXCEEDED, "Models are still being loaded")
