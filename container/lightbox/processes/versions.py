"""Which versions of a fixed model the model servers see, and which answer, while versions come and go on disk.

A version is shown to the model servers once it is whole, has not changed between two looks and fits the version that
answers, and answers requests that name no version once it has answered a probe. What happens is decided here;
``Surroundings`` does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from lightbox.core.errors import Unavailable
from lightbox.transports.model_status import Load, ServerState

LOOK_SECONDS = 1.0
LEAVING_SECONDS = 2.0
"""How long a version that answers no longer stays in the model servers, for requests that were checked against it."""
HIDDEN_SECONDS = 3.0
"""How long a version is hidden at least: the model servers look each second, and load nothing again that they have not
missed."""
STALE_SECONDS = 5.0
"""After so long a state END is that of this load: until then it may be an earlier one's."""
QUIET_SECONDS = 10.0
"""What has not changed for so long is not being copied any more: then the log says why it is not served."""
MOST_ENDS = 2
"""A version is not tried again when so many ends of a model server came while it was loaded."""


class Files(NamedTuple):
    """A version's files as they can be compared: device and inode of the folder; name, size, mtime of all in it."""

    folder: tuple[int, int]
    entries: frozenset[tuple[str, int, int]]


class Surroundings(Protocol):
    """What is around the versions of one model. Versions are numbers."""

    async def found(self) -> Mapping[int, Files]:
        """Return what is on disk. Raises OSError when that cannot be told."""
        ...

    async def problem(self, version: int) -> str | None:
        """Return why a version cannot be served, judged by its files; None where it is whole."""
        ...

    async def misfit(self, version: int, answering: int | None) -> str | None:
        """Return why a whole version must not take the place of the answering one; None where it may."""
        ...

    def show(self, version: int) -> None:
        """Let the model servers see a version."""
        ...

    def hide(self, version: int) -> None:
        """Take a version from the model servers' sight."""
        ...

    async def states(self) -> Sequence[ServerState]:
        """Return each model server's versions."""
        ...

    async def probe(self, version: int) -> str | None:
        """Have a version predict; return why it must not answer, None where it may. Raises Unavailable
        when nobody had the time to tell."""
        ...

    def publish(self, versions: Sequence[int]) -> None:
        """Have requests that name no version answered by the first of these that the model servers have."""
        ...

    def log(self, version: int, text: str) -> None:
        """Log a sentence about a version."""
        ...


class Phase(Enum):
    """Where a version is on its way."""

    WAITING = auto()
    """On disk, or a moment ago; the model servers do not see it."""
    LOADING = auto()
    """The model servers see it."""
    ANSWERING = auto()
    """It has answered a probe, or was there at the start."""
    LEAVING = auto()
    """The model servers see it, requests go to others."""


@dataclass
class _Version:
    files: Files | None
    since: float
    """When its files or its phase changed last."""
    phase: Phase = Phase.WAITING
    is_new: bool = False
    """Whether it has appeared since the last look."""
    steady: bool = False
    """Whether the files were the same in two looks."""
    judged: bool = False
    problem: str | None = None
    """Why it is not shown, by these files."""
    beside: list[int] | None = None
    """The answering version, if any, that ``problem`` comes from a comparison with; None where nothing was compared."""
    told: bool = False
    ends: int = 0
    hidden_at: float | None = None
    load: Load | None = None
    """Its way into the model servers, since it is shown."""


class ModelVersions:
    """Follows the versions of one model. ``initial`` are those that answer from the start."""

    def __init__(self, around: Surroundings, initial: Mapping[int, Files]) -> None:
        self._around = around
        self._versions = {
            number: _Version(files, 0.0, Phase.ANSWERING, judged=True) for number, files in initial.items()
        }
        self._start_is_judged = False
        self._now = 0.0

    def answering(self) -> list[int]:
        """Return the versions that may answer, the best first."""
        return sorted(self._in(Phase.ANSWERING), reverse=True)

    def not_served(self) -> dict[int, str]:
        """Return the versions of which the log says that they are not served, each with the reason."""
        waiting = self._in(Phase.WAITING).items()
        return {number: version.problem for number, version in waiting if version.problem and version.told}

    async def look(self, now: float) -> None:
        """Compare what is with what was, and take each version one step further; ``now`` is in seconds."""
        try:
            found = await self._around.found()
        except OSError:  # of a share that is away nothing is known, and what is loaded answers on
            return
        self._now = now
        for number in sorted(self._versions.keys() | found.keys()):
            self._compare(number, found.get(number))
        await self._judge_files()
        if self._start_is_judged and not any(v.phase is Phase.LOADING or _may_load(v) for v in self._versions.values()):
            return
        servers = await self._around.states()
        self._judge_start(servers)
        self._show(servers)
        await self._follow(servers)

    def server_ended(self) -> None:
        """Note that a model server has ended: what it was loading may be why, and is not there when it starts again."""
        for number, version in self._in(Phase.LOADING).items():
            version.ends += 1
            if version.ends >= MOST_ENDS:
                self._refuse(number, "the model server ended while it loaded it")
            else:
                self._hide(number)

    def _in(self, phase: Phase) -> dict[int, _Version]:
        return {number: version for number, version in self._versions.items() if version.phase is phase}

    # ------------------------------------------------------------------ files

    def _compare(self, number: int, files: Files | None) -> None:
        version = self._versions.get(number)
        if version is None:
            self._versions[number] = _Version(files, self._now, is_new=True)
        elif version.phase is Phase.ANSWERING:
            self._compare_answering(number, version, files)
        elif version.phase is Phase.LEAVING:
            if self._now - version.since >= LEAVING_SECONDS:
                self._hide(number)
        elif files == version.files:
            version.steady = files is not None
            if files is None and (version.hidden_at is None or self._now - version.hidden_at > HIDDEN_SECONDS):
                del self._versions[number]
        else:
            hidden_at = version.hidden_at
            if version.phase is Phase.LOADING:
                self._around.hide(number)
                hidden_at = self._now
            self._versions[number] = _Version(files, self._now, is_new=version.files is None, hidden_at=hidden_at)

    def _compare_answering(self, number: int, version: _Version, files: Files | None) -> None:
        is_gone = files is None or version.files is None or files.folder != version.files.folder
        if is_gone and len(self.answering()) > 1:
            version.phase, version.since = Phase.LEAVING, self._now
            self._around.publish(self.answering())
            self._around.log(number, f"was removed; version {self.answering()[0]} answers")
        elif files != version.files and not version.told:
            version.told = True
            change = "was removed" if files is None else "has changed on disk"
            self._around.log(
                number, f"{change}; the files that were loaded stay in use. Give a new version a new number"
            )

    async def _judge_files(self) -> None:
        for number, version in self._in(Phase.WAITING).items():
            if version.is_new:
                version.is_new = False
                if problem := await self._around.problem(number):
                    self._around.log(number, f"is here and cannot be served yet: {problem}")
            if version.steady and not version.judged:
                version.problem, version.judged = await self._around.problem(number), True
            if version.problem and not version.told and self._now - version.since >= QUIET_SECONDS:
                self._tell(number, version)
            await self._compare_with_answering(number, version)

    async def _compare_with_answering(self, number: int, version: _Version) -> None:
        """Judge a whole version beside the one that answers, and again when that is another one."""
        best = self.answering()[:1]
        is_whole = version.judged and (version.problem is None or version.beside is not None)
        if is_whole and version.beside != best:
            version.beside, version.problem = best, await self._around.misfit(number, next(iter(best), None))
            if version.problem:
                self._tell(number, version)

    def _tell(self, number: int, version: _Version) -> None:
        version.told = True
        self._around.log(number, f"is not served: {version.problem}. It is tried again when its files change")

    # ---------------------------------------------------------- model servers

    def _judge_start(self, servers: Sequence[ServerState]) -> None:
        """Drop what no model server could load at the start, where another version answers."""
        if self._start_is_judged or None in servers:
            return
        self._start_is_judged = True
        told = [[server.get(number) for server in servers if server] for number in self.answering()]
        for number, states in zip(self.answering(), told, strict=True):
            errors = [state.error for state in states if state and state.state == "END" and state.error]
            if len(errors) == len(servers) and len(self.answering()) > 1:
                self._refuse(number, f"it cannot be loaded: {errors[0]}")
                self._around.publish(self.answering())

    def _show(self, servers: Sequence[ServerState]) -> None:
        known = [server for server in servers if server is not None]
        if len(known) < len(servers):
            return
        for number, version in self._in(Phase.WAITING).items():
            states = [server.get(number) for server in known]
            is_hidden = version.hidden_at is None or self._now - version.hidden_at >= HIDDEN_SECONDS
            if _may_load(version) and is_hidden and all(state is None or state.state == "END" for state in states):
                self._around.show(number)
                version.phase, version.since, version.load = Phase.LOADING, self._now, Load([number], servers)

    async def _follow(self, servers: Sequence[ServerState]) -> None:
        for number, version in sorted(self._in(Phase.LOADING).items(), reverse=True):
            if self._versions.get(number) is not version or version.load is None:
                continue  # a model server has ended while another version was probed
            if self._now - version.since >= STALE_SECONDS:
                for server in range(len(servers)):
                    version.load.begun(server)
            if failure := version.load.failure(servers):
                self._refuse(number, f"it cannot be loaded: {failure[1]}")
            elif version.load.is_done(servers):
                await self._probe(number, version)

    async def _probe(self, number: int, version: _Version) -> None:
        try:
            problem = await self._around.probe(number)
        except Unavailable:
            return
        if self._versions.get(number) is not version or version.phase is not Phase.LOADING:
            return  # a model server has ended meanwhile
        if problem:
            self._refuse(number, f"it failed a probe: {problem}")
            return
        version.phase, version.since, version.told = Phase.ANSWERING, self._now, False
        self._around.publish(self.answering())
        is_best = number == self.answering()[0]
        self._around.log(number, "answers" if is_best else f"is served; version {self.answering()[0]} answers")

    # ------------------------------------------------------------------ steps

    def _hide(self, number: int) -> None:
        """Take a version from the model servers' sight; the next looks find out what it is now."""
        self._around.hide(number)
        version = self._versions[number]
        files = version.files if version.phase is Phase.LOADING else None
        self._versions[number] = _Version(files, self._now, hidden_at=self._now, ends=version.ends)

    def _refuse(self, number: int, problem: str) -> None:
        files = self._versions[number].files
        self._hide(number)
        version = self._versions[number]
        version.files, version.judged, version.problem = files, True, problem
        self._tell(number, version)


def _may_load(version: _Version) -> bool:
    return version.phase is Phase.WAITING and version.judged and version.problem is None
