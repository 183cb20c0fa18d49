"""The models of multi-model mode, found, loaded and unloaded by requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from typing_extensions import override

from lightbox.base.errors import AlreadyLoaded, BadRequest, LightboxError, ModelLoading, ModelNotFound
from lightbox.base.machine.shared_files import release
from lightbox.base.request_context import RequestContext
from lightbox.base.settings import Settings
from lightbox.features.multi_model.loader import ModelLoader
from lightbox.features.multi_model.model_path import Source, is_place, locate, name_of, place_of, unforeseeable_name
from lightbox.features.multi_model.state import By, LoadedModel, LoadedModels, being_loaded, not_loaded
from lightbox.model.catalogue import Catalogue, PlannedModel
from lightbox.model.plan import AnsweringServers, ServingPlan
from lightbox.supervisor.starting.code_trial import try_code
from lightbox.transports.grpc import RenewedChannel
from lightbox.transports.model_management import ModelManagement
from lightbox.user_code.paths import find_inference
from lightbox.user_code.registry import UserCode


class LoadableModels(Catalogue):
    """The loaded models and their loader. A target is loaded before its prediction, as SageMaker does in front of the
    container.

    A target is a path, and a path means the model that was loaded from it, after links: never another one, whatever the
    names of models are.
    """

    is_fixed = False

    def __init__(self, settings: Settings, loader: ModelLoader, state: LoadedModels) -> None:
        self._root = settings.model_dir
        self._load_seconds = settings.load_seconds
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
        channels = [RenewedChannel(server.grpc_target) for server in plan.model_servers]
        management = ModelManagement(channels, run_dir, AnsweringServers(plan.model_servers))
        loader = ModelLoader(settings, max_models, run_dir, state, management, check_code, plan.shared_code_dirs)
        return cls(settings, loader, state)

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
    @contextmanager
    def target(self, target: str, context: RequestContext, loads: bool) -> Iterator[str]:
        source = Source(target, "TargetModel")
        while (use := self.state.begin_use(entry := self._of_target(source, context, loads))) is None:
            pass  # it made room for another one a moment ago
        try:
            yield entry.model.name
        except ModelNotFound as error:
            if self.state.all().get(entry.model.name) == entry:
                raise
            # Taken off the list since: the model stays until this use has ended, and the next request loads it again.
            raise ModelLoading(f"the model {entry.model.name!r} is being unloaded; try again") from error
        finally:
            release(use)

    @override
    def of_target(self, target: str) -> str:
        with suppress(LightboxError):
            return self._of_target(Source(target, "TargetModel"), RequestContext(0), loads=False).model.name
        return ""

    def _of_target(self, source: Source, context: RequestContext, loads: bool) -> LoadedModel:
        target = str(source.path)
        named = self.state.all().get(target)
        if loads and named is not None and named.by == "target":
            named = None  # that name is of a path, which another caller gave
        try:
            place = place_of(source, self._root)
        except BadRequest:
            place = None
        if place is not None and (found := self.state.at(place)) is not None:
            return found
        if named and not (place and is_place(source, place) and not named.path.is_relative_to(place)):
            return named
        if loads:
            return self._loaded(source, context, "target")
        if any(self.state.is_being_loaded(name) for name in (target, str(place or target))):
            raise being_loaded(target)
        raise not_loaded(target)

    @override
    def load(self, target: str, context: RequestContext) -> str:
        return self._loaded(Source(target, "model"), context, "path").model.name

    @override
    def unload(self, name: str, context: RequestContext) -> None:
        place = place_of(Source(name, "model"), self._root)
        entries = [*self.state.all().values(), *self.state.leaving().values()]
        by_path = (entry.model.name for entry in entries if entry.path == place and entry.by != "name")
        self.loader.unload(next(by_path, name), context)

    def _loaded(self, source: Source, context: RequestContext, by: By) -> LoadedModel:
        """Return the model at a path. It is loaded, unless it is there already."""
        place, name = locate(source, self._root), name_of(source, self._root)
        context = context.longer(self._load_seconds)
        with self.loader.turn(), context.stage("load"), self.state.loading(str(place), context, source.shown):
            result = self.state.at(place)
            named = self.state.all().get(name or "")
            if by == "path" and result is not None and result.by == "name":
                result = named if named and named.path == place else None  # callers of the protocol know their own name
            if result is None:
                return self._load_as(name, place, source, context, by)
            if by == "path" and name not in (None, result.model.name):
                raise AlreadyLoaded(f"Model {name} is already loaded, as {result.model.name!r}")
            if by == "path" and result.by == "target":
                self.loader.keep(result, context)
            return result

    def _load_as(self, name: str | None, place: Path, source: Source, context: RequestContext, by: By) -> LoadedModel:
        """Load a model under its path's name. Where another has that, a TargetModel gets one that no one can choose."""
        own = unforeseeable_name(place, self._root, self.state.secret)
        is_free = by == "path" or not (name in self.state.all() or self.state.is_being_loaded(name or ""))
        try:
            return self.loader.load_in_turn(name if name and is_free else own, source, context, by)
        except AlreadyLoaded:
            if by == "path":
                raise
            return self.loader.load_in_turn(own, source, context, by)
