"""Loads and unloads one model in all model servers, judged by the reported states.

A server's response to a reload is not enough: it says OK when the first version of a model is AVAILABLE, OK to an
unload that has not begun, and an error to a load that began while the model's earlier versions were ending.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress

from lightbox.base.error_texts import without_folders
from lightbox.base.errors import BadRequest, DeadlineExceeded, LightboxError, NoRoom, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.model_status import Load, ServerState

PAUSE_SECONDS = 0.01
"""Seconds between two requests for the states of a model."""
ROLLBACK_SECONDS = 5.0
"""Seconds to undo a failed load. If they are not enough, the next load or unload continues."""
NO_MEMORY, NO_DESCRIPTORS = "RESOURCE_EXHAUSTED", "Too many open files"

_FAILED = r"\{{name: {name} version: -?\d+\}} due to error: "


class LoadFailed(BadRequest):
    """A version has failed. The text has the model's full folder, which the loader replaces by the caller's name."""

    @staticmethod
    def _short(text: str) -> str:
        return text


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
        """Wait until all ``versions`` are AVAILABLE in all servers, which are configured with ``config``.

        Raises BadRequest for a version that cannot be loaded, NoRoom without memory for it, Unavailable,
        DeadlineExceeded and ModelFailed. After each of them the servers get the configuration without the model;
        ``reload_sent`` is true until they have applied it.
        """
        self.unload(context)  # a server with the model from an earlier load would load nothing
        try:
            self._load(config, versions, context)
        except LightboxError:
            with suppress(LightboxError):
                self.unload(RequestContext(ROLLBACK_SECONDS))
            raise

    def unload(self, context: RequestContext) -> None:
        """Wait until no server has the model: all its versions are END, or the server has ended.

        Raises DeadlineExceeded and ModelFailed.
        """
        with suppress(Unavailable):  # it has just ended: the next one reads the configuration file
            self._management.reload(self._model, self._others, context, wait_for_server=True)
        self._poll(lambda: not any(map(_serves, self._management.states(self._model, context))), "unloaded", context)
        self.reload_sent = False

    def _load(self, config: str, versions: Collection[int], context: RequestContext) -> None:
        load = Load(versions, self._management.states(self._model, context))
        self.reload_sent = True
        for server, complaint in enumerate(self._management.reload(self._model, config, context)):
            # OK means only that all versions have started, and one of them is AVAILABLE or has failed.
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
    if NO_DESCRIPTORS in error:
        return Unavailable(f"the model server has too many open files for version {version} of the model; try again")
    if NO_MEMORY in error:
        return NoRoom(f"the model server has no memory for version {version} of the model: {without_folders(error)}")
    return LoadFailed(f"the model cannot be loaded: version {version} ended with {error}")
