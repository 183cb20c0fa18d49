"""Loading and unloading one model in all model servers, by the states that they tell.

What a server answers to a reload is not enough: it says OK when the first version of a model is AVAILABLE, OK to an
unload that has not begun, and an error to a load that it has begun while the model's earlier versions were ending.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress

from lightbox.core.error_texts import without_folders
from lightbox.core.errors import BadRequest, DeadlineExceeded, LightboxError, NoRoom, Unavailable
from lightbox.core.request_context import RequestContext
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.model_status import Load, ServerState

PAUSE_SECONDS = 0.01
"""Between two questions for the states of a model that comes or goes."""
ROLLBACK_SECONDS = 5.0
"""What a failed load may take to be undone. Where that is not enough, the next load or unload begins with it."""
NO_MEMORY = "RESOURCE_EXHAUSTED"

_FAILED = r"\{{name: {name} version: -?\d+\}} due to error: "


class LoadFailed(BadRequest):
    """A version ended. The text names the model's folder in full: the loader puts the caller's name in its place."""

    @staticmethod
    def _short(message: str) -> str:
        return message


class Transition:
    """Loads one model into all servers, or unloads it; ``others`` is the configuration without it.

    Only one transition runs at a time, whatever its model: a reload names all models.

    ``reload_sent`` is true from the first reload that names the model's folder until every server has unloaded it. The
    folder must stay while it is true: a server that misses one folder of its configuration loads no model any more.
    """

    def __init__(self, management: ModelManagement, model: str, others: str) -> None:
        self.reload_sent = False
        self._management = management
        self._model = model
        self._others = others

    def load(self, config: str, versions: Collection[int], context: RequestContext) -> None:
        """Return when all ``versions`` are AVAILABLE in all servers that are asked to serve ``config``.

        Raises BadRequest when one cannot be loaded, NoRoom where there is no memory for it, Unavailable,
        DeadlineExceeded and ModelFailed; after each of them the servers are asked to go on without the model, and
        ``reload_sent`` says whether they may not have done so yet.
        """
        self.unload(context)  # what an earlier load or unload has left: a server that has the model loads nothing
        try:
            self._load(config, versions, context)
        except LightboxError:
            with suppress(LightboxError):
                self.unload(RequestContext(ROLLBACK_SECONDS))
            raise

    def unload(self, context: RequestContext) -> None:
        """Return when no server has the model any more: all its versions are END, or the server itself is gone.

        Raises DeadlineExceeded and ModelFailed.
        """
        with suppress(Unavailable):  # it died just now: the next one reads the configuration file
            self._management.reload(self._model, self._others, context, wait_for_server=True)
        self._poll(lambda: not any(map(_serves, self._management.states(self._model, context))), "unloaded", context)
        self.reload_sent = False

    def _load(self, config: str, versions: Collection[int], context: RequestContext) -> None:
        load = Load(versions, self._management.states(self._model, context))
        self.reload_sent = True
        for server, complaint in enumerate(self._management.reload(self._model, config, context)):
            # It says no more than that: all versions start together, and one of them is AVAILABLE, or has failed.
            if not complaint or re.search(_FAILED.format(name=re.escape(self._model)), complaint):
                load.note_started(server)

        def is_loaded() -> bool:
            servers = self._management.states(self._model, context)
            if not all(servers):
                raise Unavailable("the model server ended while it loaded the model; try again")
            if failure := load.failure(servers):
                raise _failure(*failure)
            return load.is_done(servers)

        self._poll(is_loaded, "loaded", context)

    def _poll(self, is_done: Callable[[], bool], done: str, context: RequestContext) -> None:
        if not context.poll(lambda: is_done() or None, PAUSE_SECONDS):
            late = f"the model {self._model!r} was not {done} within {context.allowed_seconds:g} s; try again"
            raise DeadlineExceeded(late)


def _serves(server: ServerState) -> bool:
    return any(status.state != "END" for status in (server or {}).values())


def _failure(version: int, error: str) -> LightboxError:
    if NO_MEMORY in error:
        return NoRoom(f"the model server has no memory for version {version} of the model: {without_folders(error)}")
    return LoadFailed(f"the model cannot be loaded: version {version} ended with {error}")
