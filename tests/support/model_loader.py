"""A loader on a fake model server that records its calls."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from lightbox.base.errors import DeadlineExceeded, LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model.loader import CodeCheck, ModelLoader
from lightbox.features.multi_model.model_path import Source
from lightbox.features.multi_model.state import LoadedModels
from lightbox.model.catalogue import PlannedModel
from lightbox.model.plan import AnsweringServers
from lightbox.serving.settings_loading import load_settings
from lightbox.transports.model_management import ModelManagement
from lightbox.transports.model_status import ServerState, VersionStatus
from lightbox.user_code.paths import UserCodeError


class Listener(ModelManagement):
    """A model server that loads and unloads at once; records the timeouts and can refuse."""

    def __init__(self) -> None:
        super().__init__([], Path(), AnsweringServers())
        self.allowed: list[float] = []
        self.refusal: LightboxError | None = None
        self.served = ""
        self.ends = True

    @override
    def reload(self, model: str, config: str, context: RequestContext, wait_for_server: bool = False) -> list[str]:
        self.allowed.append(context.remaining())
        if self.refusal is not None and "config {" in config:
            raise self.refusal
        self.served = config
        return [""]

    @override
    def states(self, model: str, context: RequestContext) -> list[ServerState]:
        if not self.ends and f'"{model}"' not in self.served:
            raise DeadlineExceeded("no")
        state = "AVAILABLE" if f'"{model}"' in self.served else "END"
        return [{1: VersionStatus(state), 2: VersionStatus(state)}]


def accept(_: PlannedModel) -> None:
    """Accept any model's code."""


def loader(
    run_dir: Path, server: Listener, code_problem: str | None = None, check: CodeCheck = accept, **given: str
) -> ModelLoader:
    def check_code(model: PlannedModel) -> None:
        check(model)
        if code_problem is not None:
            raise UserCodeError(f"{model.code_dirs[0]}: {code_problem}")

    environ = {"LIGHTBOX_MODEL_DIR": str(run_dir.parent / "models"), "LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "1"}
    settings = load_settings(environ | {"SAGEMAKER_MULTI_MODEL": "true"} | given)
    return ModelLoader(settings, 1000, run_dir, LoadedModels(run_dir), server, check_code)


def bare(run_dir: Path) -> Source:
    return Source(str(next((run_dir.parent / "models" / "half").iterdir()).relative_to(run_dir.parent / "models")))


def own_folders(run_dir: Path) -> list[str]:
    return sorted((folder.name for folder in (run_dir / "models").iterdir()), key=len)
