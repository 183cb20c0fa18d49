"""The versions of one fixed model: folders on disk, the model servers' links to them, and their states in the model
servers and the sidecar.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from lightbox.base.error_bodies import error_text
from lightbox.base.errors import StartError, Unavailable
from lightbox.base.machine.memory import find_trim
from lightbox.base.plain_http import get
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.model.catalogue import PlannedModel
from lightbox.model.spec import SignatureSpec
from lightbox.model_files.changes import change_problem
from lightbox.model_files.checks import signatures_of, version_problem
from lightbox.model_files.layout import LARGEST_VERSION, ModelOnDisk, is_version
from lightbox.model_files.recipes import changed_key
from lightbox.model_runtime.access import is_dir
from lightbox.supervisor.starting.option_checks import misfits
from lightbox.transports.model_status import ModelStatus, ServerState

PROBE_MARGIN_SECONDS = 5.0
MOST_LATE_PROBES = 3
"""After this many late responses a version is refused: then the load is not the reason."""


class Files(NamedTuple):
    """A version's files for comparison: device and inode of the folder; name, size and mtime of its files."""

    folder: tuple[int, int]
    entries: frozenset[tuple[str, int, int]]


class VersionLinks:
    """The versions of a model, by number. ``publish`` gets those that may answer, the best first.

    Signatures of a version are cached: the answering version's files may be removed. The options are those of the
    start, with which requests are answered.
    """

    def __init__(
        self,
        model: PlannedModel,
        source: Path,
        settings: Settings,
        is_default: bool,
        statuses: Sequence[ModelStatus],
        sidecar: str,
        publish: Callable[[Sequence[int]], None],
    ) -> None:
        """``source`` is the models' folder, the model's base path holds the links; ``sidecar`` is an address."""
        self._model = model
        self._shown = model.base_path
        self._source = source
        self._settings = settings
        self._is_default = is_default
        self._statuses = statuses
        self._sidecar = sidecar
        self.publish = publish
        self._trim = find_trim()
        self._late_probes: dict[int, int] = {}
        self._away: set[int] = set()
        self._held = ExitStack()
        self._signatures: dict[int, Mapping[str, SignatureSpec]] = {}
        for version, folder in self._folders().items():
            with suppress(StartError):  # changed since the start checked it
                self._signatures[version] = signatures_of(folder, model.name, version)

    def server_ended(self) -> None:
        """Hide versions whose folders are missing until they are back: a model server waits for a model without
        versions, and does not start with a version that cannot be loaded."""
        for link in self._shown.iterdir():
            if is_version(link.name) and not link.exists():
                self._away.add(int(link.name))
                link.unlink(missing_ok=True)

    async def show_recovered(self) -> None:
        """Show the versions that ``server_ended`` has hidden and whose folders are back; ``found`` does so too."""
        if self._away:
            with suppress(OSError):  # still missing
                await self.found()

    def _folders(self) -> dict[int, Path]:
        """Return the folders on disk whose names are versions. Raises OSError."""
        entries = sorted(entry for entry in self._source.iterdir() if is_version(entry.name) and is_dir(entry))
        return {number: entry for entry in entries if (number := int(entry.name)) <= LARGEST_VERSION}

    async def found(self) -> Mapping[int, Files]:
        """Return the versions on disk. Raises OSError if the disk cannot be read."""
        return await asyncio.to_thread(self._found)

    def _found(self) -> dict[int, Files]:
        found = self.files()
        for number in self._away & found.keys():
            self.show(number)
        return found

    def files(self) -> dict[int, Files]:
        """Return the versions on disk. Raises OSError.

        Each folder stays open until the next call: the file system does not reuse an open inode, so a folder that was
        removed and created again is always a different one.
        """
        result = {}
        with ExitStack() as held:
            for number, folder in self._folders().items():
                with suppress(FileNotFoundError):  # removed a moment ago
                    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
                    held.callback(os.close, descriptor)
                    result[number] = _files(folder, os.fstat(descriptor))
            previous, self._held = self._held, held.pop_all()
        previous.close()
        return result

    async def problem(self, version: int) -> str | None:
        """Return why a version's files cannot be served, None if they are complete."""
        allowed = self._settings.linked_folders
        return await self._judged(version_problem, self._folder(version), self._model.name, version, allowed)

    async def misfit(self, version: int, current: int | None) -> str | None:
        """Return why a complete version must not replace the answering one, None if it may.

        A version in text form has no readable signatures and always fits.
        """
        return await self._judged(self._misfit, version, current)

    def _misfit(self, version: int, current: int | None) -> str | None:
        model = self._model
        try:
            new = self._signatures[version] = signatures_of(self._folder(version), model.name, version)
            found = list(misfits(model.name, new, model.options, model.code_dirs, self._settings))
            fresh = ModelOnDisk(model.name, self._folder(version), unversioned=True)
            other = changed_key(fresh, model.options, self._settings.linked_folders)
        except StartError as error:
            return str(error)
        if problem := next(
            (one.sentence for one in found if one.is_own or (self._is_default and not one.is_idle)), None
        ):
            return f"{problem}; other options need a restart"
        if other:
            return f"its recipe has another value of {other}; other options need a restart"
        if not new or current is None or model.options.model_changes == "allow":
            return None
        if problem := change_problem(self._signatures.get(current, {}), new):
            return f'{problem}; the option "model_changes": "allow" serves such a version'
        return None

    async def _judged(self, look: Callable[..., str | None], *about: object) -> str | None:
        try:
            return await asyncio.to_thread(look, *about)
        finally:
            self._trim()  # of the graphs that were read

    def _folder(self, version: int) -> Path:
        with suppress(OSError):
            return self._folders().get(version, self._source / str(version))
        return self._source / str(version)

    def show(self, version: int) -> None:
        """Make a version visible to the model servers."""
        self.hide(version)
        self._away.discard(version)
        (self._shown / str(version)).symlink_to(self._folder(version), target_is_directory=True)

    def hide(self, version: int) -> None:
        """Hide a version from the model servers."""
        self._late_probes.pop(version, None)
        (self._shown / str(version)).unlink(missing_ok=True)

    async def states(self) -> Sequence[ServerState]:
        """Return each model server's versions."""
        return await asyncio.gather(*(status.versions_in_time(self._model.name) for status in self._statuses))

    async def probe(self, version: int) -> str | None:
        """Let the sidecar predict with a version, as for a caller; return why it must not answer, None if it may.

        Raises Unavailable when the sidecar or the model server is busy.
        """
        try:
            async with asyncio.timeout(self._settings.deadline_seconds + PROBE_MARGIN_SECONDS):
                status, body = await get(self._sidecar, f"/internal/probe/{self._model.name}/{version}")
        except TimeoutError:
            status, body = 504, b""
        except (OSError, ValueError) as error:
            raise Unavailable("the sidecar cannot be reached") from error
        if status == 200:
            return None
        if status == 504:
            self._late_probes[version] = self._late_probes.get(version, 0) + 1
            if self._late_probes[version] >= MOST_LATE_PROBES:
                return f"{MOST_LATE_PROBES} requests got no answer in time"
        if status in (0, 404, 503, 504):  # the sidecar or a model server starts, or is busy
            raise Unavailable(error_text(body))
        return error_text(body) or f"status {status}"

    def log(self, version: int, text: str) -> None:
        """Log a sentence about a version, with the user's folder in place of the links'."""
        log(f"version {version} of the model {self._model.name!r} {text.replace(str(self._shown), str(self._source))}")


def _files(folder: Path, status: os.stat_result) -> Files:
    entries = set()
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in chain(folders, files)):
            with suppress(FileNotFoundError, PermissionError):
                found = path.stat()
                entries.add((str(path), found.st_size, found.st_mtime_ns))
    return Files((status.st_dev, status.st_ino), frozenset(entries))
