"""The models of multi-model mode, found, loaded and unloaded by requests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from typing_extensions import override

from lightbox.core.errors import AlreadyLoaded, ModelNotFound
from lightbox.core.request_context import RequestContext
from lightbox.core.settings import Settings
from lightbox.features.multi_model.loader import ModelLoader
from lightbox.features.multi_model.sources import Source
from lightbox.features.multi_model.state import LoadedModels, not_loaded
from lightbox.model.catalogue import Catalogue, PlannedModel
from lightbox.model.layout import LONGEST_NAME
from lightbox.model.plan import Answering, ServingPlan
from lightbox.processes.code_trial import try_code
from lightbox.transports.grpc import open_channel
from lightbox.transports.model_management import ModelManagement
from lightbox.user_code.paths import find_inference
from lightbox.user_code.registry import UserCode


class LoadableModels(Catalogue):
    """The loaded models and their loader. A target is loaded before its prediction, as SageMaker does in front of the
    container.
    """

    is_fixed = False

    def __init__(self, loader: ModelLoader, state: LoadedModels) -> None:
        self.loader = loader
        self.state = state

    @classmethod
    def of(
        cls, settings: Settings, max_models: int, plan: ServingPlan, run_dir: Path, user_code: UserCode
    ) -> LoadableModels:
        """Return the models of a run."""

        def check_code(model: PlannedModel) -> None:
            file = find_inference(model.code_dirs)
            if file is not None and not user_code.uses(file):
                try_code(model, run_dir)

        state = LoadedModels(run_dir)
        channels = [open_channel(server.grpc_target) for server in plan.model_servers]
        management = ModelManagement(channels, run_dir, Answering(plan.model_servers))
        return cls(
            ModelLoader(settings, max_models, run_dir, state, management, check_code, plan.shared_code_dirs), state
        )

    @override
    def find(self, name: str | None) -> PlannedModel:
        return self.state.find(name)

    @override
    def using(self, name: str | None) -> AbstractContextManager[PlannedModel]:
        return self.state.using(name)

    @override
    def names(self) -> list[str]:
        return sorted(self.state.all())

    @override
    def versions(self, name: str) -> Sequence[int]:
        return ()  # a load waits for all versions, so the model server's newest one answers

    @override
    def on_change(self, listener: Callable[[str], None]) -> None:
        self.state.on_change(listener)

    @override
    def target(self, target: str, context: RequestContext, loads: bool) -> str | None:
        if loads:
            return self._load(Source(target, "TargetModel"), context)
        name = self._name_of(target)
        try:
            self.state.get(name)
        except ModelNotFound:
            raise not_loaded(target) from None  # names the caller's target
        return name

    @override
    def load(self, target: str, context: RequestContext) -> str:
        return self._load(Source(target, "model"), context)

    @override
    def unload(self, name: str, context: RequestContext) -> None:
        self.loader.unload(self._name_of(name), context)

    def _load(self, source: Source, context: RequestContext) -> str:
        name = self._name_of(str(source.path))
        if name not in self.state.all():
            with suppress(AlreadyLoaded):  # another request was faster
                self.loader.load(name, source, context)
        return name

    def _name_of(self, target: str) -> str:
        """Return the name of a target's model, loaded or not: the target itself if a model is loaded under it."""
        return target if target in self.state.all() else model_name(target)


def model_name(target: str) -> str:
    """Return the model name of a target: the target itself, if it is a valid name.

    Otherwise invalid characters are replaced, and a hash keeps ``a/b`` and ``a-b`` apart.
    """
    whole = target.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", whole)
    return name if name == whole else f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
