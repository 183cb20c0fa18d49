"""The plan of a start: the models, and the addresses of the processes.

The supervisor makes it once and writes it into the run directory, where workers read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter
from typing_extensions import override

from lightbox.base.errors import BadRequest, LightboxError, MethodNotAllowed, ModelNotFound, ModelServerUnreachable
from lightbox.base.machine.shared_files import Document, replace_file
from lightbox.base.request_context import RequestContext
from lightbox.base.settings import Settings
from lightbox.base.settings_types import TransportName
from lightbox.model.catalogue import Catalogue, PlannedModel


class ModelServerAddress(BaseModel):
    """The addresses of one model server: a unix socket, and the TCP ports that it needs."""

    model_config = ConfigDict(frozen=True)

    grpc_socket: Path
    grpc_port: int | None = None
    rest_port: int | None = None
    local_socket: Path | None = None
    """Socket of the embedded server's transport ``local``; None if it is off."""
    rest_socket: Path | None = None
    """Socket of the embedded server's REST API; None if it is off, and with tensorflow_model_server."""

    @property
    def grpc_target(self) -> str:
        """Address for a gRPC channel."""
        return f"unix:{self.grpc_socket}"

    @property
    def silent_mark(self) -> Path:
        """A file that exists while the server is known not to answer."""
        return Path(f"{self.grpc_socket}.silent")


class AnsweringServers:
    """Knows which of the model servers may be called: all but those that the supervisor marks as not answering."""

    def __init__(self, servers: Sequence[ModelServerAddress] = ()) -> None:
        self._marks = [str(server.silent_mark) for server in servers]

    def servers(self) -> list[int]:
        """Return the numbers of the servers that may be called; raise ModelServerUnreachable if none of them may."""
        found = [number for number, mark in enumerate(self._marks) if not os.access(mark, os.F_OK)]
        if self._marks and not found:
            raise ModelServerUnreachable("no model server answers; try again")
        return found

    def check_all(self) -> None:
        """Raise ModelServerUnreachable unless all servers may be called."""
        if len(self.servers()) < len(self._marks):
            raise ModelServerUnreachable("a model server does not answer; try again")


class Transports(BaseModel):
    """The transports to the model servers, the default one first, and the reasons for open TCP ports."""

    model_config = ConfigDict(frozen=True)

    names: tuple[TransportName, ...] = (TransportName.GRPC, TransportName.REST)
    why_grpc_port: str | None = None
    """None if gRPC has only the unix socket."""
    why_rest_port: str | None = None
    """None without REST, or if it has only the unix socket."""
    rest_socket: bool = False
    """Whether REST has a unix socket."""


class ServingPlan(BaseModel):
    """All decisions of a start."""

    model_config = ConfigDict(frozen=True)

    models: dict[str, PlannedModel]
    default_model: str | None
    """None in multi-model mode, where each request names its model."""
    model_servers: tuple[ModelServerAddress, ...]
    transports: Transports = Transports()
    shared_code_dirs: tuple[Path, ...] = ()
    """Folders of code for all models without code of their own; it also handles requests for unknown models."""

    @property
    def all_code_dirs(self) -> list[tuple[Path, ...]]:
        """Folders of the code of each model, and of models that are loaded later or do not exist."""
        folders = [model.code_dirs for model in self.models.values()]
        return folders + ([self.shared_code_dirs] if self.shared_code_dirs else [])

    def is_shared(self, settings: Settings) -> bool:
        """Return whether several models answer, so that each has a share."""
        return len(self.models) > 1 or not settings.has_fixed_models

    @property
    def concurrency(self) -> int:
        """The requests that may run of all models that set their number."""
        return sum(model.options.concurrency or 0 for model in self.models.values())

    def shared_requests(self, settings: Settings) -> int:
        """Return how many requests of models without a concurrency may be in progress or wait in all workers.

        One of several models gets half at most, which is as many as for one alone.
        """
        return settings.most_requests * (2 if self.is_shared(settings) else 1)

    def most_requests(self, settings: Settings) -> int:
        """Return how many requests of all models may be in progress or wait in all workers."""
        more = settings.workers * settings.max_waiting * sum(bool(m.options.concurrency) for m in self.models.values())
        return self.shared_requests(settings) + self.concurrency + more

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        replace_file(path, self.model_dump_json(indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> ServingPlan:
        """Read a plan written by ``write``."""
        return cls.model_validate_json(path.read_bytes())


def answering_versions(run_dir: Path) -> Document[dict[str, tuple[int, ...]]]:
    """Return the versions of each model that answer requests without a version, the best first.

    The supervisor writes them. Workers check the file for each request, and read it after a change.
    """
    return Document(run_dir / "versions.json", TypeAdapter(dict[str, tuple[int, ...]]), {})


class PlannedModels(Catalogue):
    """The models of the plan, fixed from start to stop; their versions may change."""

    is_fixed = True

    def __init__(self, plan: ServingPlan, versions: Document[dict[str, tuple[int, ...]]] | None = None) -> None:
        self._plan = plan
        self._versions = versions

    @override
    def find(self, name: str | None) -> PlannedModel:
        name = name or self._plan.default_model
        if name is None:
            raise BadRequest("the request names no model, and this endpoint has no default one")
        if name not in self._plan.models:
            known = ", ".join(sorted(self._plan.models))
            raise ModelNotFound(f"there is no model named {name!r}; this endpoint serves {known}")
        return self._plan.models[name]

    @override
    def using(self, name: str | None) -> AbstractContextManager[PlannedModel]:
        return nullcontext(self.find(name))

    @override
    def names(self) -> list[str]:
        return sorted(self._plan.models)

    @override
    def versions(self, name: str) -> Sequence[int]:
        return self._versions.read().get(name, ()) if self._versions else ()

    @override
    def on_change(self, listener: Callable[[str], None]) -> None:
        pass

    @override
    def target(self, target: str, context: RequestContext, loads: bool) -> AbstractContextManager[None]:
        return nullcontext()

    @override
    def load(self, target: str, context: RequestContext) -> str:
        raise _fixed()

    @override
    def unload(self, name: str, context: RequestContext) -> None:
        raise _fixed()


def _fixed() -> LightboxError:
    return MethodNotAllowed("models are loaded and unloaded in multi-model mode only: SAGEMAKER_MULTI_MODEL")
