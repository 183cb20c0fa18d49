"""Follows the versions of all fixed models on disk, in the model servers and in the sidecar."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path

from typing_extensions import override

from lightbox.core.errors import StartError, Unavailable
from lightbox.core.settings import Settings
from lightbox.machine.memory import find_trim
from lightbox.model.catalogue import PlannedModel
from lightbox.model.changes import change_problem
from lightbox.model.checks import signatures_of, version_problem
from lightbox.model.layout import LARGEST_VERSION, ModelOnDisk, find_models, is_version
from lightbox.model.plan import AnsweringVersions, ServingPlan
from lightbox.model.spec import SignatureSpec
from lightbox.processes.health import get, told_in
from lightbox.processes.option_checks import misfits
from lightbox.processes.versions import LOOK_SECONDS, Files, ModelVersions, Surroundings
from lightbox.telemetry.logs import log
from lightbox.transports.model_status import ModelStatus, ServerState

PROBE_MARGIN_SECONDS = 5.0
MOST_LATE_PROBES = 3
"""After so many answers that came too late a version is refused: it is not the load that makes it slow."""


class VersionWatch:
    """Follows the versions of the plan's models. ``sidecar`` is its address."""

    def __init__(
        self, plan: ServingPlan, settings: Settings, run_dir: Path, statuses: Sequence[ModelStatus], sidecar: str
    ) -> None:
        self._models_are_fixed = settings.has_fixed_models
        self._model_dir, self._known = settings.model_dir, _folders(settings.model_dir)
        self._file = AnsweringVersions(run_dir)
        self._answering: dict[str, Sequence[int]] = {}
        self._followed: dict[str, ModelVersions] = {}
        self._around: list[_AroundModel] = []
        for model in plan.models.values():
            if model.versions_dir is None:
                continue
            judge = _Judge(model, settings, model.name == plan.default_model)
            around = _AroundModel(
                judge, model.versions_dir, statuses, sidecar, settings.deadline_seconds, self._publish
            )
            self._around.append(around)
            initial = around.files()
            judge.remember(around.folders())
            self._followed[model.name] = followed = ModelVersions(around, initial)
            self._answering[model.name] = followed.answering()
        self._file.write(self._answering)

    def _publish(self, model: str, versions: Sequence[int]) -> None:
        self._answering[model] = versions
        self._file.write(self._answering)

    async def show_again(self) -> None:
        """Show what ``server_ended`` has hidden and is back; ``follow`` does so too."""
        for around in self._around:
            if around.is_hiding():
                with suppress(OSError):  # it is away still
                    await around.found()

    async def follow(self) -> None:
        """Follow all models for ever, and name new ones in the log."""
        await asyncio.gather(self._tell_new_models(), *(_follow(*item) for item in self._followed.items()))

    async def _tell_new_models(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for model in await asyncio.to_thread(self._new_models) if self._models_are_fixed else ():
                log(f"the model {model.name!r} in {model.base_path} is new and is not served: it needs a restart")

    def _new_models(self) -> list[ModelOnDisk]:
        """Return the models in folders that have come since the last look."""
        new: list[ModelOnDisk] = []
        for folder in _folders(self._model_dir) - self._known:
            with suppress(StartError):  # it holds no model, or none yet
                new += find_models(folder)
                self._known.add(folder)
        return new

    def not_served(self) -> list[tuple[str, str, str]]:
        """Return model, version and reason of each version that is on disk and not served."""
        return [
            (name, str(number), around.with_source(why))
            for around, (name, versions) in zip(self._around, self._followed.items(), strict=True)
            for number, why in versions.not_served().items()
        ]

    def server_ended(self) -> None:
        """Note that a model server has ended."""
        for versions in self._followed.values():
            versions.server_ended()
        for around in self._around:
            around.server_ended()


def _folders(root: Path) -> set[Path]:
    """Return the folders in which models beside those of ``root`` itself may lie."""
    with suppress(OSError):  # of a share that is away nothing is known
        found = (entry for entry in root.iterdir() if entry.is_dir() and not is_version(entry.name))
        return {entry for entry in found if entry.name != "code" and not entry.name.startswith(".")}
    return set()


async def _follow(name: str, versions: ModelVersions) -> None:
    loop, told = asyncio.get_running_loop(), ""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await versions.look(loop.time())
        except Exception as error:  # whatever is wrong with a version, the others answer on
            if told != (told := repr(error)):
                log(f"the versions of the model {name!r} cannot be followed: {told}")


class _Judge:
    """Judges the files of one model's versions as a start does, and compares a new version with the answering one.

    What a version takes and gives is remembered: the files of the one that answers may be gone. The options are those
    of the start, which requests are answered with.
    """

    def __init__(self, model: PlannedModel, settings: Settings, is_default: bool) -> None:
        self.model = model
        self._settings = settings
        self._is_default = is_default
        self._signatures: dict[int, Mapping[str, SignatureSpec]] = {}

    def remember(self, folders: Mapping[int, Path]) -> None:
        """Read what the versions of the start take and give."""
        for version, folder in folders.items():
            with suppress(StartError):  # changed since the start looked at it
                self._signatures[version] = signatures_of(folder, self.model.name, version)

    def problem(self, version: int, folder: Path) -> str | None:
        """Return why a version cannot be served, judged by its files; None where it is whole."""
        return version_problem(folder, self.model.name, version)

    def misfit(self, version: int, folder: Path, answering: int | None) -> str | None:
        """Return why a whole version must not take the place of the answering one; None where it may.

        The signatures of a version in text form cannot be read and fit.
        """
        model = self.model
        try:
            new = self._signatures[version] = signatures_of(folder, model.name, version)
            found = list(misfits(model.name, new, model.options, model.code_dirs, self._settings))
        except StartError as error:
            return str(error)
        if problem := next((text for own, text in found if own or self._is_default), None):
            return f"{problem}; other options need a restart"
        if not new or answering is None or model.options.model_changes == "allow":
            return None
        if problem := change_problem(self._signatures.get(answering, {}), new):
            return f'{problem}; the option "model_changes": "allow" serves such a version'
        return None


class _AroundModel(Surroundings):
    """The versions of one model are links in its base path, to folders in ``source``."""

    def __init__(
        self,
        judge: _Judge,
        source: Path,
        statuses: Sequence[ModelStatus],
        sidecar: str,
        probe_seconds: float,
        publish: Callable[[str, Sequence[int]], None],
    ) -> None:
        self._judge = judge
        self._model = judge.model.name
        self._shown = judge.model.base_path
        self._source = source
        self._statuses = statuses
        self._sidecar = sidecar
        self._probe_seconds = probe_seconds + PROBE_MARGIN_SECONDS
        self._publish = publish
        self._trim = find_trim()
        self._late_probes: dict[int, int] = {}
        self._away: set[int] = set()
        self._held = ExitStack()

    def server_ended(self) -> None:
        """Hide versions whose folders are gone until these are back: a model server waits for a model without versions,
        and does not start where one cannot be loaded."""
        for link in self._shown.iterdir():
            if is_version(link.name) and not link.exists():
                self._away.add(int(link.name))
                link.unlink(missing_ok=True)

    def is_hiding(self) -> bool:
        """Tell whether a version is hidden until its folder is back."""
        return bool(self._away)

    def folders(self) -> dict[int, Path]:
        """Return the folders on disk that are named by a version. Raises OSError."""
        entries = sorted(entry for entry in self._source.iterdir() if is_version(entry.name) and entry.is_dir())
        return {number: entry for entry in entries if (number := int(entry.name)) <= LARGEST_VERSION}

    @override
    async def found(self) -> dict[int, Files]:
        return await asyncio.to_thread(self._found)

    def _found(self) -> dict[int, Files]:
        found = self.files()
        for number in self._away & found.keys():
            self.show(number)
        return found

    def files(self) -> dict[int, Files]:
        """Return what is on disk. Raises OSError.

        Each folder is held open until the next call: an inode in use is not given to a new folder, so a folder that was
        removed and made again is a different one, however fast that went.
        """
        found = {}
        with ExitStack() as held:
            for number, folder in self.folders().items():
                with suppress(FileNotFoundError):  # removed a moment ago
                    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
                    held.callback(os.close, descriptor)
                    found[number] = _files(folder, os.fstat(descriptor))
            previous, self._held = self._held, held.pop_all()
        previous.close()
        return found

    @override
    async def problem(self, version: int) -> str | None:
        return await self._judged(self._judge.problem, version, self._folder(version))

    @override
    async def misfit(self, version: int, answering: int | None) -> str | None:
        return await self._judged(self._judge.misfit, version, self._folder(version), answering)

    async def _judged(self, look: Callable[..., str | None], *about: object) -> str | None:
        try:
            return await asyncio.to_thread(look, *about)
        finally:
            self._trim()  # of the graphs that were looked at

    def _folder(self, version: int) -> Path:
        with suppress(OSError):
            return self.folders().get(version, self._source / str(version))
        return self._source / str(version)

    @override
    def show(self, version: int) -> None:
        self.hide(version)
        self._away.discard(version)
        (self._shown / str(version)).symlink_to(self._folder(version), target_is_directory=True)

    @override
    def hide(self, version: int) -> None:
        self._late_probes.pop(version, None)
        (self._shown / str(version)).unlink(missing_ok=True)

    @override
    async def states(self) -> list[ServerState]:
        return list(await asyncio.gather(*(status.told(self._model) for status in self._statuses)))

    @override
    async def probe(self, version: int) -> str | None:
        # The sidecar makes the request, as a worker does for a caller.
        try:
            async with asyncio.timeout(self._probe_seconds):
                status, body = await get(self._sidecar, f"/internal/probe/{self._model}/{version}")
        except TimeoutError:
            status, body = 504, b""
        except (OSError, ValueError) as error:
            raise Unavailable("the sidecar cannot be asked") from error
        if status == 200:
            return None
        if status == 504:
            self._late_probes[version] = self._late_probes.get(version, 0) + 1
            if self._late_probes[version] >= MOST_LATE_PROBES:
                return f"{MOST_LATE_PROBES} requests got no answer in time"
        if status in (0, 404, 503, 504):  # the sidecar or a model server starts, or has no time
            raise Unavailable(told_in(body))
        return told_in(body) or f"status {status}"

    @override
    def publish(self, versions: Sequence[int]) -> None:
        self._publish(self._model, versions)

    @override
    def log(self, version: int, text: str) -> None:
        log(f"version {version} of the model {self._model!r} {self.with_source(text)}")

    def with_source(self, text: str) -> str:
        """Return a model server's text with the folder that a user knows in the place of the links'."""
        return text.replace(str(self._shown), str(self._source))


def _files(folder: Path, status: os.stat_result) -> Files:
    entries = set()
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in chain(folders, files)):
            with suppress(FileNotFoundError):
                found = path.stat()
                entries.add((str(path), found.st_size, found.st_mtime_ns))
    return Files((status.st_dev, status.st_ino), frozenset(entries))
