"""Follows the versions of all fixed models, and reports new models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.model.plan import ServingPlan, answering_versions
from lightbox.model_files.layout import ModelOnDisk, find_models, is_version
from lightbox.model_runtime.access import is_dir
from lightbox.supervisor.watching.lasting import lasting
from lightbox.supervisor.watching.version_links import VersionLinks
from lightbox.supervisor.watching.versions import LOOK_SECONDS, ModelVersions
from lightbox.transports.model_status import ModelStatus


class VersionWatch:
    """Follows the versions of the plan's models. ``sidecar`` is its address."""

    def __init__(
        self, plan: ServingPlan, settings: Settings, run_dir: Path, statuses: Sequence[ModelStatus], sidecar: str
    ) -> None:
        self._reports_new_models = settings.has_fixed_models and not settings.models
        self._model_dir, self._known = settings.model_dir, _folders(settings.model_dir)
        self._file = answering_versions(run_dir)
        self._answering: dict[str, tuple[int, ...]] = {}
        self._followed: dict[str, ModelVersions] = {}
        for name, model in plan.models.items():
            if model.versions_dir is not None:
                is_default, publish = name == plan.default_model, partial(self._publish, name)
                links = VersionLinks(model, model.versions_dir, settings, is_default, statuses, sidecar, publish)
                self._followed[name] = followed = ModelVersions(links, links.files())
                self._answering[name] = tuple(followed.answering())
        self._file.write(self._answering)

    def _publish(self, model: str, versions: Sequence[int]) -> None:
        self._answering[model] = tuple(versions)
        self._file.write(self._answering)

    async def show_recovered(self) -> None:
        """Show the versions that ``server_ended`` has hidden and whose folders are back; ``follow`` does so too."""
        for versions in self._followed.values():
            await versions.links.show_recovered()

    async def follow(self) -> None:
        """Follow all models and log new ones, forever."""
        of_models = (lasting(partial(_follow, *item)) for item in self._followed.items())
        await asyncio.gather(lasting(self._report_new_models), *of_models)

    async def _report_new_models(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for model in await asyncio.to_thread(self._new_models) if self._reports_new_models else ():
                log(f"the model {model.name!r} in {model.base_path} is new and is not served: it needs a restart")

    def _new_models(self) -> list[ModelOnDisk]:
        """Return the models in folders that are new since the last check."""
        new: list[ModelOnDisk] = []
        for folder in _folders(self._model_dir) - self._known:
            with suppress(StartError):  # it holds no model, or no complete one
                new += find_models(folder)
                self._known.add(folder)
        return new

    def not_served(self) -> list[tuple[str, str, str]]:
        """Return model, version and the reason's code for each version on disk that is not served."""
        return [
            (name, str(number), reason)
            for name, versions in self._followed.items()
            for number, reason in versions.not_served().items()
        ]

    def server_ended(self) -> None:
        """Note that a model server has ended."""
        for versions in self._followed.values():
            versions.server_ended()


def _folders(root: Path) -> set[Path]:
    """Return the folders that may hold models other than those of ``root`` itself."""
    with suppress(OSError):  # an unreachable share
        found = (entry for entry in root.iterdir() if is_dir(entry) and not is_version(entry.name))
        return {entry for entry in found if entry.name != "code" and not entry.name.startswith(".")}
    return set()


async def _follow(name: str, versions: ModelVersions) -> None:
    loop, reported = asyncio.get_running_loop(), ""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await versions.look(loop.time())
        except Exception as error:  # one broken version does not affect the others
            if reported != (reported := repr(error)):
                log(f"the versions of the model {name!r} cannot be followed: {reported}")
