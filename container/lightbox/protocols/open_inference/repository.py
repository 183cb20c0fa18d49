"""What the protocol tells of the server and its models, and its calls that load and unload them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from lightbox import errors
from lightbox.errors import BadRequest, LightboxError, UnknownSignature
from lightbox.multi_model.loader import ModelLoader, TargetModels
from lightbox.pipeline import Pipeline
from lightbox.protocols.http import TARGET_MODEL
from lightbox.protocols.open_inference.requests import (
    EXTENSIONS,
    PLATFORM,
    SERVER_NAME,
    SageMakerHeaders,
    version_number,
)
from lightbox.protocols.open_inference.tensors import described
from lightbox.request_context import RequestContext

PROTOCOL_VERSION = "2"


def server_metadata() -> dict[str, Any]:
    """Return name, version and extensions of the server."""
    return {"name": SERVER_NAME, "version": PROTOCOL_VERSION, "extensions": list(EXTENSIONS)}


class Repository:
    """The models behind a pipeline; in multi-model mode ``targets`` loads and ``loader`` unloads them."""

    def __init__(
        self, pipeline: Pipeline, targets: TargetModels | None = None, loader: ModelLoader | None = None
    ) -> None:
        self._pipeline = pipeline
        self._targets = targets
        self._loader = loader

    def model_metadata(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return a model's inputs and outputs, -1 for an open dimension.

        They are those of the signature that answers a request which names none. Raises ModelNotFound, Unavailable, and
        UnknownSignature where there is none such.
        """
        spec = self._pipeline.describe(model, version_number(version), context)
        return {
            "name": spec.model,
            "versions": [str(spec.version)],
            "platform": PLATFORM,
            "inputs": [described(tensor) for tensor in spec.inputs.values()],
            "outputs": [described(tensor) for tensor in spec.outputs.values()],
        }

    def check_ready(self, model: str, version: str, context: RequestContext) -> None:
        """Raise ModelNotFound or Unavailable unless the model can answer. One that wants its signature named can."""
        with suppress(UnknownSignature):
            self._pipeline.describe(model, version_number(version), context)

    def index(self, ready_only: bool, context: RequestContext) -> list[dict[str, str]]:
        """Return every model with its newest version and state."""
        found = [self._entry(name, context) for name in self._pipeline.models()]
        return [entry for entry in found if entry["state"] == "READY" or not ready_only]

    def target(self, model: str, headers: SageMakerHeaders, context: RequestContext) -> str:
        """Return the model that a request is for: the one it names.

        In multi-model mode one that SageMaker's header targets too is loaded if it was not, as on /invocations. Raises
        BadRequest when that names another.
        """
        if self._targets is None or not headers.target_model:
            return model
        target = self._targets.load(headers.target_model, context)
        if model not in ("", target):
            raise BadRequest(f"{TARGET_MODEL}: expected {model!r}, the model that the request names; got {target!r}")
        return target

    def load(self, model: str, context: RequestContext) -> None:
        """Load a folder or an archive of the models directory, if it is not loaded.

        Raises ModelNotFound, MethodNotAllowed with fixed models, and as TargetModels.load.
        """
        if self._targets is None:
            raise self._fixed()
        self._targets.load(model, context, field="model")

    def unload(self, model: str, context: RequestContext) -> None:
        """Stop serving a model, named as ``load`` names it or as it is listed. Raises as ``load`` does."""
        if self._loader is None or self._targets is None:
            raise self._fixed()
        self._loader.unload(self._targets.name_of(model), context)

    def _entry(self, name: str, context: RequestContext) -> dict[str, str]:
        try:
            version = self._pipeline.describe(name, None, context).version
        except UnknownSignature as error:
            version = error.version
        except LightboxError as error:
            return {"name": name, "version": "", "state": "UNAVAILABLE", "reason": error.message}
        return {"name": name, "version": str(version), "state": "READY", "reason": ""}

    def _fixed(self) -> LightboxError:
        return errors.MethodNotAllowed("models are loaded and unloaded in multi-model mode only: SAGEMAKER_MULTI_MODEL")
