"""Which versions of a fixed model are visible to the model servers, and which answer, as versions come and go on disk.

A version becomes visible once it is complete, unchanged in two checks, and fits the answering version. It answers
requests without a version once it has answered a probe. This module decides; ``VersionLinks`` acts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from lightbox.base.errors import Unavailable
from lightbox.supervisor.watching.version_links import Files, VersionLinks
from lightbox.transports.model_status import ON_ITS_WAY, Load, ServerState, VersionStatus

LOOK_SECONDS = 1.0
LEAVING_SECONDS = 2.0
"""Seconds that a replaced version stays in the model servers, for requests that were checked against it."""
HIDDEN_SECONDS = 3.0
"""Minimum seconds that a version is hidden: the model servers check each second, and load a version again only after
they have missed it."""
STALE_SECONDS = 5.0
"""Seconds after which a state END belongs to this load; before, it may be an earlier one's."""
QUIET_SECONDS = 10.0
"""Seconds without a change after which a copy counts as finished: then the log reports why it is not served."""
MOST_ENDS = 2
"""A version is given up after this many ends of a model server during its load."""


_GONE = VersionStatus("END")
"""The state of a version that a server does not know."""


Reason = Literal["files", "incompatible", "load", "probe"]
"""Why a version is not served: its files, another signature than the answering one's, its load, or its first probe."""


class Phase(Enum):
    """The phase of a version's life."""

    WAITING = auto()
    """On disk, or removed a moment ago; hidden from the model servers."""
    LOADING = auto()
    """Visible to the model servers."""
    ANSWERING = auto()
    """Has answered a probe, or was there at the start."""
    LEAVING = auto()
    """Visible to the model servers; requests go to others."""


@dataclass
class _Version:
    files: Files | None
    since: float
    """Time of the last change of its files or phase."""
    phase: Phase = Phase.WAITING
    is_new: bool = False
    """Whether it has appeared since the last check."""
    problem: str | None = None
    """Why these files are not visible; empty if they may be, None until they were equal in two checks."""
    reason: Reason = "files"
    """The kind of ``problem``."""
    beside: list[int] | None = None
    """The answering version with which ``problem`` was found; None without a comparison."""
    reported: bool = False
    ends: int = 0
    hidden_at: float | None = None
    load: Load | None = None
    """Its load in the model servers, while visible."""


class ModelVersions:
    """Follows the versions of one model. ``initial`` are those that answer from the start."""

    def __init__(self, links: VersionLinks, initial: Mapping[int, Files]) -> None:
        self.links = links
        self._versions = {number: _Version(files, 0.0, Phase.ANSWERING) for number, files in initial.items()}
        self._start_is_judged = False
        self._now = 0.0

    def answering(self) -> list[int]:
        """Return the versions that may answer, the best first."""
        return sorted(self._in(Phase.ANSWERING), reverse=True)

    def not_served(self) -> dict[int, Reason]:
        """Return the versions that the log reports as not served, each with the reason's code."""
        waiting = self._in(Phase.WAITING).items()
        return {number: version.reason for number, version in waiting if version.problem and version.reported}

    async def look(self, now: float) -> None:
        """Compare the disk with the last check, and advance each version by one phase; ``now`` is in seconds."""
        try:
            found = await self.links.found()
        except OSError:  # an unreachable share: loaded versions go on answering
            return
        self._now = now
        for number in sorted(self._versions.keys() | found.keys()):
            self._compare(number, found.get(number))
        await self._judge_files()
        if self._start_is_judged and not any(v.phase is Phase.LOADING or _may_load(v) for v in self._versions.values()):
            return
        servers = await self.links.states()
        self._judge_start(servers)
        self._show(servers)
        await self._follow(servers)

    def server_ended(self) -> None:
        """Note that a model server has ended: the version that it was loading may be the reason."""
        for number, version in self._in(Phase.LOADING).items():
            version.ends += 1
            if version.ends >= MOST_ENDS:
                self._hide(number, "the model server ended while it loaded it")
            else:
                self._hide(number)
        self.links.server_ended()

    def _in(self, phase: Phase) -> dict[int, _Version]:
        return {number: version for number, version in self._versions.items() if version.phase is phase}

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
            if files is None and self._is_hidden(version):
                del self._versions[number]
        else:
            hidden_at = version.hidden_at
            if version.phase is Phase.LOADING:
                self.links.hide(number)
                hidden_at = self._now
            self._versions[number] = _Version(files, self._now, is_new=version.files is None, hidden_at=hidden_at)

    def _compare_answering(self, number: int, version: _Version, files: Files | None) -> None:
        is_gone = files is None or version.files is None or files.folder != version.files.folder
        if is_gone and len(self.answering()) > 1:
            version.phase, version.since = Phase.LEAVING, self._now
            self.links.publish(self.answering())
            self.links.log(number, f"was removed; version {self.answering()[0]} answers")
        elif files != version.files and not version.reported:
            version.reported = True
            change = "was removed" if files is None else "has changed on disk"
            self.links.log(number, f"{change}; the files that were loaded stay in use. Give a new version a new number")

    async def _judge_files(self) -> None:
        for number, version in self._in(Phase.WAITING).items():
            if version.is_new:
                version.is_new = False
                if problem := await self.links.problem(number):
                    self.links.log(number, f"has appeared and cannot be served yet: {problem}")
            if version.problem is None and version.files is not None and version.since < self._now:
                version.problem, version.reason = await self.links.problem(number) or "", "files"
            if version.problem and not version.reported and self._now - version.since >= QUIET_SECONDS:
                self._report(number, version)
            await self._compare_with_answering(number, version)

    async def _compare_with_answering(self, number: int, version: _Version) -> None:
        """Check a complete version against the answering one, again after each change of that."""
        best = self.answering()[:1]
        is_whole = version.problem == "" or version.beside is not None
        if is_whole and version.beside != best:
            version.problem = await self.links.misfit(number, next(iter(best), None)) or ""
            version.beside = best
            version.reason = "incompatible"
            if version.problem:
                self._report(number, version)

    def _report(self, number: int, version: _Version) -> None:
        version.reported = True
        self.links.log(number, f"is not served: {version.problem}. It is tried again when its files change")

    def _judge_start(self, servers: Sequence[ServerState]) -> None:
        """Drop versions that no model server could load at the start, if another version answers.

        tensorflow_model_server reports the newest version at once, and loads the others one after another.
        """
        if self._start_is_judged or None in servers:
            return
        self._start_is_judged = not any(
            (server or {}).get(number, _GONE).state in ON_ITS_WAY for server in servers for number in self.answering()
        )
        for number in self.answering():
            states = [(server or {}).get(number, _GONE) for server in servers]
            errors = [status.error for status in states if status.state == "END" and status.error]
            if len(errors) == len(servers) and len(self.answering()) > 1:
                self._hide(number, f"it cannot be loaded: {errors[0]}")
                self.links.publish(self.answering())

    def _show(self, servers: Sequence[ServerState]) -> None:
        if None in servers:
            return
        for number, version in self._in(Phase.WAITING).items():
            has_ended = all((server or {}).get(number, _GONE).state == "END" for server in servers)
            if _may_load(version) and self._is_hidden(version) and has_ended:
                self.links.show(number)
                version.phase, version.since, version.load = Phase.LOADING, self._now, Load([number], servers)

    def _is_hidden(self, version: _Version) -> bool:
        return version.hidden_at is None or self._now - version.hidden_at >= HIDDEN_SECONDS

    async def _follow(self, servers: Sequence[ServerState]) -> None:
        for number, version in sorted(self._in(Phase.LOADING).items(), reverse=True):
            if self._versions.get(number) is not version or version.load is None:
                continue  # a model server has ended while another version was probed
            if self._now - version.since >= STALE_SECONDS:
                for server in range(len(servers)):
                    version.load.note_started(server)
            if failure := version.load.failure(servers):
                self._hide(number, f"it cannot be loaded: {failure[1]}")
            elif version.load.is_done(servers):
                await self._probe(number, version)

    async def _probe(self, number: int, version: _Version) -> None:
        try:
            problem = await self.links.probe(number)
        except Unavailable:
            return
        if self._versions.get(number) is not version or version.phase is not Phase.LOADING:
            return  # a model server has ended meanwhile
        if problem:
            self._hide(number, f"it failed a probe: {problem}", "probe")
            return
        version.phase, version.since, version.reported = Phase.ANSWERING, self._now, False
        self.links.publish(self.answering())
        is_best = number == self.answering()[0]
        self.links.log(number, "answers" if is_best else f"is served; version {self.answering()[0]} answers")

    def _hide(self, number: int, problem: str | None = None, reason: Reason = "load") -> None:
        """Hide a version from the model servers; the next checks start over.

        With a ``problem`` it is retried only after its files change.
        """
        self.links.hide(number)
        version = self._versions[number]
        files = version.files if version.phase is Phase.LOADING or problem else None
        hidden = _Version(files, self._now, hidden_at=self._now, ends=version.ends, problem=problem, reason=reason)
        self._versions[number] = hidden
        if problem:
            self._report(number, hidden)


def _may_load(version: _Version) -> bool:
    return version.phase is Phase.WAITING and version.problem == ""
