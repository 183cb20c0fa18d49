"""The Open Inference Protocol's methods by its own names: REST's routes and gRPC's service translate to and from them.

Whether the server is live and ready, the supervisor knows: REST's probes are its own, gRPC's calls ask it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lightbox.base.error_texts import echo
from lightbox.base.errors import BadRequest, LightboxError, MalformedBody, ModelNotFound, TooLarge, UnknownSignature
from lightbox.base.request_context import Header, RequestContext
from lightbox.base.telemetry.metrics import OUTCOMES, PARTS, read_counts
from lightbox.codecs import Codecs
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, TARGET_MODEL, CustomAttributes
from lightbox.core.pipeline import Pipeline
from lightbox.core.request import ByteStrings, Call, TensorResponse, Tensors
from lightbox.features.open_inference.classification import classified
from lightbox.features.open_inference.tensors import NO_FORMAT, configured, described, image_format
from lightbox.model.engine_report import engines_of
from lightbox.model.spec import Array, Method, SignatureSpec, TensorSpec
from lightbox.model_files.checks import notes_of
from lightbox.model_files.layout import version_folder, weights_note
from lightbox.model_runtime.formats import SAVED_MODEL_PLATFORM, platform
from lightbox.model_runtime.formats.signature import FOUND_NOTES, INFO

EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics")
DEFAULT_BACKEND = "tensorflow"
"""The engine of a signature without a report: TensorFlow, in the embedded server or in TensorFlow Serving."""
SERVER_NAME = "lightbox"
PROTOCOL_VERSION = "2"
MOST_ROWS = 1024
"""``max_batch_size`` of a model with an open one: Triton needs a number. Bytes and memory limit requests, not rows."""
MAX_NAMED = 1024
"""Most inputs, outputs and parameters of a request, each; models of TensorFlow Serving have fewer."""


@dataclass(frozen=True)
class InferRequest:
    """Input tensors, the names of the wanted outputs, and the caller's parameters.

    ``binary`` says for each named output whether to return it as a blob; ``binary_default`` for the others. ``classes``
    is the number of classes of an output, in place of its numbers.
    """

    inputs: Mapping[str, Array | ByteStrings]
    outputs: tuple[str, ...] = ()
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    binary: Mapping[str, bool] = field(default_factory=dict)
    binary_default: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)

    def call(
        self, codecs: Codecs, model: str | None, version: str, attributes: CustomAttributes
    ) -> Call[TensorResponse]:
        """Return the pipeline's call; ``version`` is the one in the path or message, "" for none."""
        parameters = {name: _text(value) for name, value in self.parameters.items()}
        pairs = (f"{name}={value}" for name, value in parameters.items())
        text = ",".join(filter(None, (attributes.text, *pairs))) or None
        call = Call(
            Tensors(codecs, self.inputs, self.outputs),
            model or None,
            version_number(version),
            attributes=CustomAttributes({**attributes.pairs, **parameters}, text),
        )
        if not attributes.pairs:
            return call
        number = call.version if version else attributes.version
        return replace(call, version=number, signature=attributes.signature, transport=attributes.transport)


class DataPlane:
    """Answers the protocol's methods with the models behind a pipeline. Dicts have the fields of its messages."""

    def __init__(self, pipeline: Pipeline, run_dir: Path) -> None:
        self.pipeline = pipeline
        self._run_dir = run_dir

    @staticmethod
    def server_metadata() -> dict[str, Any]:
        """Return name, version and extensions of the server."""
        return {"name": SERVER_NAME, "version": PROTOCOL_VERSION, "extensions": list(EXTENSIONS)}

    def model_ready(self, model: str, version: str, context: RequestContext) -> bool:
        """Return True for a model that can answer; raise ModelNotFound or Unavailable for others."""
        self._answering_version(model, version, context)
        return True

    def model_metadata(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return a model's inputs and outputs, -1 for an open dimension.

        For the default signature. If user code writes the response, its outputs, as far as they are known. Raises
        ModelNotFound, Unavailable, and UnknownSignature without a default one.
        """
        spec = self.pipeline.describe(model, version_number(version), context)
        outputs = self.pipeline.outputs(spec)
        return {
            "name": spec.model,
            "versions": [str(spec.version)],
            "platform": self._platform(spec),
            "inputs": [described(tensor) for tensor in spec.inputs.values()],
            "outputs": [described(tensor) for tensor in outputs.outputs.values()],
        }

    def model_parameters(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return REST's further metadata: the origin of the weights, the engines, user code that writes responses.

        With the option ``detections`` or ``map`` also that, unless user code writes responses. If several versions
        answer, also these, the newest first. Of each signature with a chosen engine the engine, and the reason. Beside
        them, as OpenVINO Model Server has it, what the file says for OpenVINO's ModelAPI.
        """
        spec = self.pipeline.describe(model, version_number(version), context)
        chosen = engines_of(self._run_dir, spec.model, spec.version)
        engines = {item.signature: {"engine": item.engine, "reason": item.reason} for item in chosen}
        parameters: dict[str, Any] = {"engines": engines} if engines else {}
        if (folder := self._folder(spec)) and (note := weights_note(folder)):
            parameters |= {"weights": note}
        if len(versions := self.pipeline.versions(spec.model)) > 1:
            parameters |= {"versions": [str(number) for number in versions]}
        if functions := self.pipeline.outputs(spec).functions:
            own = [described(tensor) for tensor in spec.outputs.values()]
            parameters |= {"handler": list(functions), "model_outputs": own}
        with suppress(ModelNotFound):
            options = self.pipeline.catalogue.find(spec.model).options
            named = {"detections": options.detections, "map": options.map}
            parameters |= {key: value for key, value in named.items() if value and not functions}
        notes = self._notes(spec)
        info = {key.removeprefix(INFO): value for key, value in notes.items() if key.startswith(INFO)}
        given = {"parameters": parameters, "rt_info": {"model_info": info} if info else {}}
        return {key: value for key, value in given.items() if value}

    def model_config(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return a model's configuration in Triton's form, for the signature of ``model_metadata``.

        Triton's clients add a batch dimension to the dims where ``max_batch_size`` is not 0: that of a model whose
        tensors all begin with an open dimension, or with 1 beside an image. Otherwise the dims are whole. ``backend``
        is the engine. ``parameters`` has the exporter's notes in the files as Ultralytics' client reads them, a literal
        of Python. Raises as ``model_metadata`` does.
        """
        spec = self.pipeline.describe(model, version_number(version), context)
        engines = {item.signature: item.engine for item in engines_of(self._run_dir, spec.model, spec.version)}
        outputs, image = self.pipeline.outputs(spec).outputs, spec.image
        form = image_format(image)
        most = _most_rows([*spec.inputs.values(), *outputs.values()], is_image=form != NO_FORMAT)
        notes = {key: value for key, value in self._notes(spec).items() if not key.startswith(FOUND_NOTES)}
        return {
            "name": spec.model,
            "platform": self._platform(spec),
            "backend": engines.get(spec.name, DEFAULT_BACKEND),
            "max_batch_size": most,
            "input": [configured(tensor, most > 0) | {"format": form} for tensor in spec.inputs.values()],
            "output": [configured(tensor, most > 0) for tensor in outputs.values()],
            "parameters": {"metadata": {"string_value": repr(notes)}} if notes else {},
        }

    def model_statistics(self, model: str, version: str, context: RequestContext) -> dict[str, Any]:
        """Return the statistics of a version; of all versions of a model, or of all models, without one.

        Raises ModelNotFound and Unavailable for a model, or a version, that does not answer, and BadRequest without a
        model in multi-model mode, where lists of models need the role for managing them.
        """
        if not (model or self.pipeline.catalogue.is_fixed):
            raise BadRequest(
                "name: expected that of a model, got none; in multi-model mode RepositoryIndex lists models"
            )
        if model:
            versions = {model: self._answering_version(model, version, context)}
        else:
            versions = {entry["name"]: int(entry["version"]) for entry in self.repository_index(True, context)}
        found = []
        for name, newest in versions.items():
            numbers = [newest] if model and version else self.pipeline.versions(name) or [newest]
            found += [_statistics_of(name, number, read_counts(self._run_dir, name, number)) for number in numbers]
        return {"model_stats": found}

    def model_infer(
        self,
        request: InferRequest,
        model: str | None,
        version: str,
        attributes: CustomAttributes,
        context: RequestContext,
    ) -> TensorResponse:
        """Return the outputs; ``version`` is the one in the path or message, "" for none. Raises as Pipeline.run."""
        # Before the prediction: it may be unloaded after.
        options = self.pipeline.catalogue.find(model).options
        response = self.pipeline.run(request.call(self.pipeline.codecs, model, version, attributes), context)
        if not request.classes:
            return response
        with context.stage("postprocess"):
            return classified(response, request.classes, options, context.memory)

    def repository_index(self, ready_only: bool, context: RequestContext) -> list[dict[str, str]]:
        """Return every model with its newest version and state."""
        found = [self._entry(name, context) for name in self.pipeline.models()]
        return [entry for entry in found if entry["state"] == "READY" or not ready_only]

    def repository_model_load(self, model: str, parameters: Iterable[str], context: RequestContext) -> None:
        """Load a folder or an archive of the models directory, if it is not loaded.

        Raises as Catalogue.load, and BadRequest for one of Triton's ``parameters``: it would replace what the folder
        holds.
        """
        if given := sorted(name for name in parameters if name == "config" or name.startswith("file:")):
            raise BadRequest(
                f"parameters: expected none, got {echo(', '.join(given))}; a model has the files of its folder, and "
                "its options are in code/lightbox.json"
            )
        self.pipeline.catalogue.load(model, context)

    def repository_model_unload(self, model: str, context: RequestContext) -> None:
        """Unload a model, by its name in a load or in the index. Raises as Catalogue.unload."""
        self.pipeline.catalogue.unload(model, context)

    @contextmanager
    def target(self, model: str, header: Header, context: RequestContext) -> Iterator[str]:
        """Yield the model of a request: the one that it names.

        In multi-model mode it is loaded first if SageMaker's header names it too, as on /invocations. Raises BadRequest
        if the header names another one.
        """
        named = header(TARGET_MODEL)
        held = self.pipeline.catalogue.target(named, context, loads=True) if named else nullcontext()
        with held as target:
            if target is not None and model not in ("", target):
                named = f"{model!r}, the model that the request names; got {target!r}"
                raise BadRequest(f"{TARGET_MODEL}: expected {named}")
            yield target or model

    def _answering_version(self, model: str, version: str, context: RequestContext) -> int:
        """Return the number of the answering version, also of one without a default signature."""
        try:
            return self.pipeline.describe(model, version_number(version), context).version
        except UnknownSignature as error:
            return error.version

    def _platform(self, spec: SignatureSpec) -> str:
        folder = self._folder(spec)
        return platform(folder) if folder else SAVED_MODEL_PLATFORM

    def _notes(self, spec: SignatureSpec) -> Mapping[str, str]:
        folder = self._folder(spec)
        return notes_of(folder) if folder else {}

    def _folder(self, spec: SignatureSpec) -> Path | None:
        """Return the folder of a version, None if the model is unloaded meanwhile."""
        with suppress(OSError, ModelNotFound):
            return version_folder(self.pipeline.catalogue.find(spec.model).base_path, spec.version)
        return None

    def _entry(self, name: str, context: RequestContext) -> dict[str, str]:
        try:
            version = self._answering_version(name, "", context)
        except LightboxError as error:
            return {"name": name, "version": "", "state": "UNAVAILABLE", "reason": error.message}
        return {"name": name, "version": str(version), "state": "READY", "reason": ""}


def _most_rows(tensors: Sequence[TensorSpec], is_image: bool) -> int:
    """Return Triton's ``max_batch_size`` of a model: 0 unless all of its tensors have rows beside other dimensions."""
    if any(tensor.shape is None or len(tensor.shape) < 2 or tensor.has_own_rows for tensor in tensors):
        return 0
    rows = {tensor.shape[0] for tensor in tensors if tensor.shape}
    return MOST_ROWS if rows == {None} else int(rows == {1} and is_image)


def read_attributes(header: Header) -> CustomAttributes:
    """Return the custom attributes of a request. Raises BadRequest for unsupported ones."""
    if (text := header(CUSTOM_ATTRIBUTES)) is None:
        return CustomAttributes()
    attributes = CustomAttributes.read(text)
    if attributes.method is not Method.PREDICT:
        method = attributes.method.value
        raise BadRequest(
            f"tfs-method: this protocol supports predict only; /invocations takes {method} in TensorFlow Serving's JSON"
        )
    _ = attributes.version
    return attributes


def version_number(text: str) -> int | None:
    """Return the version in a path or message, None for the newest; raise ModelNotFound if it is not a number."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ModelNotFound(f"version: expected a whole number, got {text[:40]!r}")
    return int(text)


def check_count(count: int, what: str) -> None:
    """Raise TooLarge for too many inputs, outputs or parameters, before they are read."""
    if count > MAX_NAMED:
        raise TooLarge(f"{what}: expected at most {MAX_NAMED}, got {count}")


def once(names: Iterable[str], what: str) -> None:
    """Raise MalformedBody for a repeated name, in linear time."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise MalformedBody(f"{what}: {echo(', '.join(twice))} appears more than once")


def _text(value: Any) -> str:
    try:
        return str(value).lower() if isinstance(value, bool) else str(value)
    except RecursionError:
        raise MalformedBody("parameters: a value is nested too deep") from None


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
