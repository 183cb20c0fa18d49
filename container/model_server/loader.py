"""From a folder to a session that answers: checks, loading, warm-up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from model_server.servable import Servable
from model_server.session import Session
from tfs_wire.status import Code, StatusError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loader:
    """How every SavedModel of this server is loaded."""

    tags: tuple[str, ...]
    session_config: bytes
    warm_up: Callable[[Servable, Session], None] | None = None

    def check(self, servable: Servable) -> None:
        """Raise StatusError for what no second attempt can help."""
        if not Path(servable.path).is_dir():
            text = f"Error while attempting to reserve resources to load servable {servable}: {servable.path}"
            raise StatusError(Code.FAILED_PRECONDITION, f"{text}; Not a directory")

    def load(self, servable: Servable) -> Session:
        """Return a running session for the version's folder; raise StatusError if it cannot be had."""
        folder = Path(servable.path)
        if not any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt")):
            text = "Specified file path does not appear to contain a SavedModel bundle (should have a file"
            raise StatusError(Code.NOT_FOUND, f"{text} called `saved_model.pb`)\nSpecified file path: {servable.path}")
        session = Session(servable.path, self.tags, self.session_config)
        try:
            if self.warm_up is not None:
                self.warm_up(servable, session)
        except StatusError:
            session.close()
            raise
        return session
