"""The environment of a model's versions: a test-controlled clock, disk, model servers and sidecar."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from lightbox.base.errors import Unavailable
from lightbox.supervisor.watching.version_links import Files, VersionLinks
from lightbox.supervisor.watching.versions import LOOK_SECONDS, ModelVersions
from lightbox.transports.model_status import ServerState, VersionStatus

WHOLE, CUT, BROKEN_GRAPH, UNLOADABLE = "whole", "cut", "broken graph", "unloadable"
OTHER = "other"
"""Whole, and of another kind than WHOLE: neither may take the other's place."""
LOADED_AT_ONCE, SLOW = 1, 3
"""Looks of a model server until a version is loaded."""


@dataclass
class Disk:
    """A version on disk: which folder it is, how often it was written to, and what its files are now."""

    folder: int
    writes: int = 0
    content: str = CUT


@dataclass
class Server:
    """A model server: polls each second, loads versions that are new since the last poll, never rereads them."""

    states: dict[int, VersionStatus] = field(default_factory=dict)
    loaded: dict[int, str] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    away: bool = False

    def look(self, shown: Mapping[int, str], looks_to_load: int) -> None:
        for version in [*self.states]:
            if version not in shown and version in self.loaded:
                del self.loaded[version]
                if not self.states[version].error:
                    self.states[version] = VersionStatus("END")
        for version, content in shown.items():
            if version not in self.loaded:
                self.loaded[version], self.left[version] = content, looks_to_load
                self.states[version] = VersionStatus("LOADING")
            elif self.states[version].state == "LOADING":
                self.left[version] -= 1
                if not self.left[version]:
                    failed = self.loaded[version] == UNLOADABLE
                    self.states[version] = VersionStatus(
                        "END" if failed else "AVAILABLE", "DATA_LOSS: bad" if failed else ""
                    )


class World(VersionLinks):
    """A clock, a disk, model servers and a sidecar around a model's versions, all controlled by the test."""

    def __init__(
        self, *initial: int, servers: int = 1, looks_to_load: int = LOADED_AT_ONCE, others: Sequence[int] = ()
    ) -> None:
        self.now, self.folders = 100.0, 0
        self.disk: dict[int, Disk] = {}
        self.shown: dict[int, str] = {}
        self.servers = [Server() for _ in range(servers)]
        self.looks_to_load = looks_to_load
        self.published = [sorted(initial, reverse=True)]
        self.logged: list[tuple[int, str]] = []
        self.probes: list[int] = []
        self.busy = False
        self.is_unreadable = self.lacks_descriptors = False
        for version in initial:
            self.write(version, OTHER if version in others else WHOLE)
            self.show(version)
        for server in self.servers:
            for _ in range(looks_to_load + 1):
                server.look(self.shown, looks_to_load)
        self.versions = ModelVersions(self, self._files())

    def write(self, version: int, content: str) -> None:
        if version not in self.disk:
            self.folders += 1
            self.disk[version] = Disk(self.folders)
        self.disk[version].writes += 1
        self.disk[version].content = content

    def remove(self, version: int) -> None:
        self.disk.pop(version, None)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += LOOK_SECONDS
            for server in self.servers:
                if not server.away:
                    server.look(self.shown, self.looks_to_load)
            asyncio.run(self.versions.look(self.now))

    def end_server(self) -> None:
        """Restart the first model server: it loads the visible versions."""
        self.versions.server_ended()
        self.servers[0] = Server()

    @property
    def visible(self) -> set[int]:
        """The versions that the model servers see."""
        return set(self.shown)

    @property
    def answering(self) -> int:
        """The version that answers requests which name none, as the sidecar finds it."""
        available = [v for v in self.published[-1] if all(self._is_available(server, v) for server in self.servers)]
        return available[0]

    def _is_available(self, server: Server, version: int) -> bool:
        return version in server.states and server.states[version].state == "AVAILABLE"

    def _files(self) -> dict[int, Files]:
        return {
            version: Files((0, disk.folder), frozenset({("files", disk.writes, 0)}))
            for version, disk in self.disk.items()
        }

    @override
    async def found(self) -> Mapping[int, Files]:
        if self.is_unreadable:
            raise OSError
        return self._files()

    @override
    async def problem(self, version: int) -> str | None:
        return "variables are missing" if version not in self.disk or self.disk[version].content == CUT else None

    @override
    async def misfit(self, version: int, answering: int | None) -> str | None:
        assert answering is not None
        if self.lacks_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        kinds = {self.disk[version].content, self.servers[0].loaded[answering]}
        return f"it is not of the kind of version {answering}" if kinds == {WHOLE, OTHER} else None

    @override
    def show(self, version: int) -> None:
        assert version not in self.shown
        self.shown[version] = self.disk[version].content

    @override
    def hide(self, version: int) -> None:
        self.shown.pop(version, None)

    @override
    async def states(self) -> Sequence[ServerState]:
        return [None if server.away else dict(server.states) for server in self.servers]

    @override
    async def probe(self, version: int) -> str | None:
        if self.busy:
            raise Unavailable("busy")
        self.probes.append(version)
        return "the graph fails" if self.servers[0].loaded[version] == BROKEN_GRAPH else None

    @override
    def publish(self, versions: Sequence[int]) -> None:
        self.published.append(list(versions))

    @override
    def log(self, version: int, text: str) -> None:
        self.logged.append((version, text))

    @override
    def server_ended(self) -> None:
        pass
