"""The server without its two transports: configuration, labels, polling, and finding a model for a call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from model_server.manager import Manager
from model_server.model_config import ModelConfig, ModelServerConfig, check_names_and_paths, check_platforms
from model_server.servable import Servable, State
from model_server.session import Runner
from model_server.storage import choose, versions_on_disk
from tfs_wire.messages import model_pb2
from tfs_wire.status import Code, StatusError, invalid

log = logging.getLogger(__name__)


class ServerCore:
    """Keeps the manager in step with the configuration and the disk."""

    def __init__(self, manager: Manager, allow_labels_for_unavailable: bool = False) -> None:
        self.manager = manager
        self._allow_labels_for_unavailable = allow_labels_for_unavailable
        self._config_lock = threading.Lock()
        self._models: dict[str, ModelConfig] = {}
        self._labels: dict[str, dict[str, int]] = {}

    # ----------------------------------------------------------- configuration

    def apply(self, config: ModelServerConfig) -> list[str]:
        """Make ``config`` what is served and return the names of its models that have versions on disk.

        Nothing changes if it does not pass the checks (StatusError). Returns as soon as loading has
        been asked for; ``wait`` waits for the result.
        """
        check_names_and_paths(config)
        check_platforms(config)
        with self._config_lock:
            models = {model.name: model for model in config.model_config_list.config}
            self._labels = self._checked_labels(models)
            gone = set(self._models) - set(models)
            self._models = models
            for name in gone:
                self.manager.aspire(name, {})
            return [name for name, model in models.items() if self._poll_model(model)]

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
        """Wait until every load of these models has ended, so or so; return whether it has."""
        return self.manager.wait_until_settled(names, timeout)

    def check_loaded(self, names: list[str], what: str) -> None:
        """Raise UNKNOWN with the error of each model that has no available version."""
        failed = self.manager.failures(names)
        if failed:
            texts = "".join(f"{{{servable} due to error: {servable.error}}}, " for servable in failed)
            text = f"{len(failed)} {what}(s) did not become available: {{{texts}}}"
            raise StatusError(Code.UNKNOWN, text)

    # ----------------------------------------------------------------- polling

    def poll(self) -> list[str]:
        """Look at every base path once; return the names of the models that have versions there."""
        with self._config_lock:
            return [name for name, model in self._models.items() if self._poll_model(model)]

    def _poll_model(self, model: ModelConfig) -> bool:
        try:
            found = versions_on_disk(model.name, model.base_path)
        except StatusError as error:
            text = "FileSystemStoragePathSource encountered a filesystem access error: %s"
            log.error(text, error.message)
            return False
        wanted = choose(found, model)
        if not wanted:
            text = "No versions of servable %s found under base path %s. "
            text += "Did you forget to name your leaf directory as a number (eg. '/1/')?"
            log.warning(text, model.name, model.base_path)
        self.manager.aspire(model.name, wanted)
        return bool(wanted)

    # ------------------------------------------------------------------ asking

    def enter(self, spec: model_pb2.ModelSpec) -> tuple[Servable, Runner]:
        """Return the version that a call asks for and its session; the caller calls ``servable.leave()``."""
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        return self.manager.enter(spec.name, self._version(spec))

    @contextmanager
    def acquire(self, spec: model_pb2.ModelSpec) -> Iterator[tuple[Servable, Runner]]:
        """Do the same for the length of a block."""
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
        """Return the versions that a status call asks for (labels are passed over, as in the real server)."""
        states = self.manager.states(spec.name)
        if spec.WhichOneof("version_choice") == "version":
            version = int(spec.version.value)
            states = [servable for servable in states if servable.version == version]
            if not states:
                raise StatusError(Code.NOT_FOUND, f"Could not find version {version} of model {spec.name}")
        if not states:
            raise StatusError(Code.NOT_FOUND, f"Could not find any versions of model {spec.name}")
        return states
