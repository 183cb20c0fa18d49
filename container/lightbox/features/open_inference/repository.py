"""Metadata of the server and its models; loading and unloading models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from lightbox.base.errors import BadRequest, LightboxError, ModelNotFound, UnknownSignature
from lightbox.base.request_context import Header, RequestContext
from lightbox.base.telemetry.metrics import OUTCOMES, PARTS, read_counts
from lightbox.core.attributes import TARGET_MODEL
from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference.requests import version_number
from lightbox.features.open_inference.tensors import configured, described
from lightbox.model.engine_report import engines_of
from lightbox.model.spec import SignatureSpec
from lightbox.model_files.layout import version_folder, weights_note
from lightbox.model_runtime.formats import SAVED_MODEL_PLATFORM, platform

EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics")
DEFAULT_BACKEND = "tensorflow"
"""The engine of a signature without a report: TensorFlow, in the embedded server or in TensorFlow Serving."""
SERVER_NAME = "lightbox"
PROTOCOL_VERSION = "2"


def server_metadata() -> dict[str, Any]:
    """Return name, version and extensions of the server."""
    return {"name": SERVER_NAME, "version": PROTOCOL_VERSION, "extensions": list(EXTENSIONS)}


class Repository:
    """The models behind a pipeline."""

    def __init__(self, pipeline: Pipeline, run_dir: Path) -> None:
        self._pipeline = pipeline
        self._run_dir = run_dir

    def model_metadata(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return a model's inputs and outputs, -1 for an open dimension.

        For the default signature. If user code writes the response, its outputs, as far as they are known. Raises
        ModelNotFound, Unavailable, and UnknownSignature without a default one.
        """
        spec = self._pipeline.describe(model, version_number(version), context)
        given = self._pipeline.outputs(spec)
        return {
            "name": spec.model,
            "versions": [str(spec.version)],
            "platform": self._platform(spec),
            "inputs": [described(tensor) for tensor in spec.inputs.values()],
            "outputs": [described(tensor) for tensor in given.outputs.values()],
        }

    def model_config(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return a model's configuration in Triton's form, for the signature of ``model_metadata``.

        Shapes include the batch dimension, if there is one, thus ``max_batch_size`` is 0. ``backend`` is the engine.
        Raises as ``model_metadata`` does.
        """
        spec = self._pipeline.describe(model, version_number(version), context)
        engines = {item.signature: item.engine for item in engines_of(self._run_dir, spec.model, spec.version)}
        return {
            "name": spec.model,
            "platform": self._platform(spec),
            "backend": engines.get(spec.name, DEFAULT_BACKEND),
            "max_batch_size": 0,
            "input": [configured(tensor) for tensor in spec.inputs.values()],
            "output": [configured(tensor) for tensor in self._pipeline.outputs(spec).outputs.values()],
        }

    def statistics(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return the statistics of a version; of all versions of a model, or of all models, without one.

        Raises ModelNotFound and Unavailable for a model, or a version, that does not answer, and BadRequest without a
        model in multi-model mode, where lists of models need the role for managing them.
        """
        if not (model or self._pipeline.catalogue.is_fixed):
            raise BadRequest(
                "name: expected that of a model, got none; in multi-model mode RepositoryIndex lists models"
            )
        if model:
            answering = {model: self._answering(model, version, context)}
        else:
            answering = {entry["name"]: int(entry["version"]) for entry in self.index(True, context)}
        found = []
        for name, newest in answering.items():
            numbers = [newest] if model and version else self._pipeline.versions(name) or [newest]
            found += [_statistics_of(name, number, read_counts(self._run_dir, name, number)) for number in numbers]
        return {"model_stats": found}

    def _answering(self, model: str, version: str, context: RequestContext) -> int:
        """Return the number of the answering version, also of one without a default signature."""
        try:
            return self._pipeline.describe(model, version_number(version), context).version
        except UnknownSignature as error:
            return error.version

    def _platform(self, spec: SignatureSpec) -> str:
        try:
            return platform(version_folder(self._pipeline.catalogue.find(spec.model).base_path, spec.version))
        except (OSError, ModelNotFound):  # unloaded meanwhile
            return SAVED_MODEL_PLATFORM

    def parameters(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return REST's further metadata: the origin of the weights, the engines, user code that writes responses.

        With the option ``detections`` also that, unless user code writes responses. If several versions answer, also
        these, the newest first.
        """
        spec = self._pipeline.describe(model, version_number(version), context)
        found = self.engines(spec.model, str(spec.version)).get("parameters", {})
        with suppress(OSError, ModelNotFound):  # unloaded meanwhile
            folder = version_folder(self._pipeline.catalogue.find(spec.model).base_path, spec.version)
            if note := weights_note(folder):
                found |= {"weights": note}
        if len(versions := self._pipeline.versions(spec.model)) > 1:
            found |= {"versions": [str(number) for number in versions]}
        if functions := self._pipeline.outputs(spec).functions:
            own = [described(tensor) for tensor in spec.outputs.values()]
            found |= {"handler": list(functions), "model_outputs": own}
        with suppress(ModelNotFound):
            if not functions and (detections := self._pipeline.catalogue.find(spec.model).options.detections):
                found |= {"detections": detections}
        return {"parameters": found} if found else {}

    def engines(self, model: str, version: str) -> dict[str, Any]:
        """Return the engine of each signature of a version, and the reason; empty if no engine was chosen."""
        found = engines_of(self._run_dir, model, int(version))
        named = {item.signature: {"engine": item.engine, "reason": item.reason} for item in found}
        return {"parameters": {"engines": named}} if named else {}

    def check_ready(self, model: str, version: str, context: RequestContext) -> None:
        """Raise ModelNotFound or Unavailable unless the model can answer."""
        self._answering(model, version, context)

    def index(self, ready_only: bool, context: RequestContext) -> list[dict[str, str]]:
        """Return every model with its newest version and state."""
        found = [self._entry(name, context) for name in self._pipeline.models()]
        return [entry for entry in found if entry["state"] == "READY" or not ready_only]

    @contextmanager
    def target(self, model: str, header: Header, context: RequestContext) -> Iterator[str]:
        """Yield the model of a request: the one that it names.

        In multi-model mode it is loaded first if SageMaker's header names it too, as on /invocations. Raises BadRequest
        if the header names another one.
        """
        named = header(TARGET_MODEL)
        held = self._pipeline.catalogue.target(named, context, loads=True) if named else nullcontext()
        with held as target:
            if target is not None and model not in ("", target):
                named = f"{model!r}, the model that the request names; got {target!r}"
                raise BadRequest(f"{TARGET_MODEL}: expected {named}")
            yield target or model

    def load(self, model: str, context: RequestContext) -> None:
        """Load a folder or an archive of the models directory, if it is not loaded. Raises as Catalogue.load."""
        self._pipeline.catalogue.load(model, context)

    def unload(self, model: str, context: RequestContext) -> None:
        """Unload a model, by its name in ``load`` or in the list. Raises as ``load`` does."""
        self._pipeline.catalogue.unload(model, context)

    def _entry(self, name: str, context: RequestContext) -> dict[str, str]:
        try:
            version = self._answering(name, "", context)
        except LightboxError as error:
            return {"name": name, "version": "", "state": "UNAVAILABLE", "reason": error.message}
        return {"name": name, "version": str(version), "state": "READY", "reason": ""}


def _statistics_of(model: str, version: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the fields of the protocol's ModelStatistics. Each request is one inference; no response is cached."""
    done = counts["success_count"]
    durations = {outcome: _duration(counts[f"{outcome}_count"], counts[f"{outcome}_ns"]) for outcome in OUTCOMES}
    durations |= {part: _duration(done, counts[part]) for part in PARTS}
    durations |= {cache: _duration(0, 0) for cache in ("cache_hit", "cache_miss")}
    return {
        "name": model,
        "version": str(version),
        "last_inference": counts["last_ms"],
        "inference_count": done,
        "execution_count": done,
        "inference_stats": durations,
        "batch_stats": [],
    }


def _duration(count: int, nanoseconds: int) -> dict[str, int]:
    return {"count": count, "ns": nanoseconds}
