"""Bodies of the Open Inference Protocol in OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightbox.base.telemetry.metrics import PARTS
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, TARGET_MODEL
from lightbox.core.edge import MODEL_HEADER
from lightbox.core.operations import BODY, JSON, REQUEST_IDS, Operation, Served, example, header, response
from lightbox.features.open_inference.classification import CLASSIFICATION, RANKS
from lightbox.features.open_inference.tensors import BYTES, JSON_LENGTH, described
from lightbox.heads.classes import shape_of_classes
from lightbox.model.spec import SignatureSpec, TensorSpec, describe_shape
from lightbox.openapi.models import DescribedModel, zeros
from lightbox.openapi.schemas import BINARY, TEXT, Schema, any_of, array, bounded, element, named, ref, struct

BLOBS = "application/octet-stream"
_SIZES = array({"type": "integer", "minimum": 0})
_PARAMETERS: dict[str, Schema] = {"parameters": ref("Parameters")}


def schemas(models: Sequence[DescribedModel]) -> dict[str, Schema]:
    """Return the schemas of the protocol's routes: its own, and those of the models."""
    kind: dict[str, Schema] = {"name": TEXT, "datatype": TEXT, "shape": _SIZES}
    data: dict[str, Schema] = {"data": {"type": "array"}}
    tensors = array(struct({"name": TEXT, "datatype": TEXT, "shape": array({"type": "integer", "minimum": -1})}))
    metadata = {"name": TEXT, "versions": array(TEXT), "platform": TEXT, "inputs": tensors, "outputs": tensors}
    state: Schema = {"enum": ["READY", "UNAVAILABLE"]}
    parameters: dict[str, Schema] = {
        "binary_data": {"type": "boolean", "description": "Of an output: return it as a blob."},
        "binary_data_output": {"type": "boolean", "description": "Of a request: return all outputs as blobs."},
        CLASSIFICATION: {"type": "integer", "minimum": 0, "description": "Of an output: the number of best classes."},
        "binary_data_size": {"description": "Of an input: bytes of its blob; as text the bytes of each image."},
    }
    return {
        "ServerMetadata": struct({"name": TEXT, "version": TEXT, "extensions": array(TEXT)}),
        "ModelMetadata": struct(metadata, {"parameters": {"type": "object"}, "rt_info": {"type": "object"}}),
        "ModelConfig": _config(),
        "ModelStatistics": _statistics(),
        "RepositoryModel": struct({"name": TEXT, "version": TEXT, "state": state, "reason": TEXT}),
        "Parameters": {"type": "object", "properties": parameters},
        "InferOutput": struct(kind, data | _PARAMETERS),
        "InferRequest": _request(array(struct(kind | data, _PARAMETERS), 1), array(_wanted(TEXT))),
        "InferResponse": _response([ref("InferOutput")], TEXT),
        **{f"{model.name}.infer_request": any_of([*map(_request_of, model.signatures)]) for model in models},
        **{f"{model.name}.infer_response": _response_of(model) for model in models},
    }


def _config() -> Schema:
    dims = array({"type": "integer", "minimum": -1})
    tensor = {"name": TEXT, "data_type": TEXT, "dims": dims}
    batch: Schema = {"type": "integer", "minimum": 0, "description": "Not 0: the dims leave out the batch dimension."}
    texts = {"name": TEXT, "platform": TEXT, "backend": TEXT}
    inputs, outputs = array(struct({**tensor, "format": TEXT})), array(struct(tensor))
    parameters: Schema = {"type": "object", "additionalProperties": struct({"string_value": TEXT})}
    tensors = {"input": inputs, "output": outputs}
    return struct({**texts, "max_batch_size": batch, **tensors, "parameters": parameters})


def _statistics() -> Schema:
    count: Schema = {"type": "integer", "minimum": 0}
    duration = struct({"count": count, "ns": count})
    durations = struct(dict.fromkeys(("success", "fail", *PARTS, "cache_hit", "cache_miss"), duration))
    counts = dict.fromkeys(("inference_count", "execution_count"), count)
    last = count | {"description": "Milliseconds since 1970; 0: none yet."}
    texts = {"name": TEXT, "version": TEXT}
    own = {**texts, "last_inference": last, **counts, "inference_stats": durations, "batch_stats": {"maxItems": 0}}
    return struct({"model_stats": array(struct(own))})


def _request(inputs: Schema, outputs: Schema) -> Schema:
    return struct({"inputs": inputs}, {"id": TEXT, "outputs": outputs, **_PARAMETERS})


def _wanted(name: Schema) -> Schema:
    return struct({"name": name}, _PARAMETERS)


def _response(outputs: Sequence[Schema], model: Schema) -> Schema:
    return struct({"model_name": model, "model_version": TEXT, "outputs": array(any_of(outputs))}, {"id": TEXT})


def _request_of(signature: SignatureSpec) -> Schema:
    count = len(signature.inputs)
    inputs = array(any_of([_input(spec) for spec in signature.inputs.values()]), count, count)
    if count > 1:  # in any order
        named = ({"type": "object", "properties": {"name": {"const": name}}} for name in signature.inputs)
        inputs["allOf"] = [{"contains": schema} for schema in named]
    wanted = array(_wanted({"enum": [*signature.outputs]}), 0, len(signature.outputs))
    return _request(inputs, wanted | {"uniqueItems": True})


def _response_of(model: DescribedModel) -> Schema:
    others = [ref("InferOutput")] if model.writes_any_body else []
    forms = []
    for signature in model.signatures:
        specs = model.outputs(signature) | dict(signature.outputs)
        forms.append(_response([*map(_output, specs.values()), *others], {"const": model.name}))
    return any_of(forms)


def _shape(spec: TensorSpec) -> Schema:
    """Return the schema of a tensor's shape: a size for each dimension, fixed if the signature's is."""
    if not spec.shape:
        return _SIZES | ({} if spec.shape is None else {"maxItems": 0})
    sizes = [_SIZES["items"] if size is None else {"const": size} for size in spec.shape]
    return {"type": "array", "prefixItems": sizes, "minItems": len(sizes), "maxItems": len(sizes)}


def _input(spec: TensorSpec) -> Schema:
    """Return the schema of an input in a request of JSON alone."""
    datatype = described(spec)["datatype"]
    item = TEXT if datatype == BYTES else bounded(spec)
    items = item if spec.shape is not None and len(spec.shape) <= 1 else any_of([item, {"type": "array"}])
    takes = f"The model takes {describe_shape(spec.shape)}." if spec.shape is not None else "Any shape."
    own: dict[str, Schema] = {
        "name": {"const": spec.name},
        "datatype": {"const": datatype},
        "shape": _shape(spec) | {"description": takes},
        "data": array(items) | {"description": "The elements, flat or nested as shape says."},
    }
    return struct(own, _PARAMETERS)


def _output(spec: TensorSpec) -> Schema:
    """Return an output in a response."""
    datatype = described(spec)["datatype"]
    data = array(TEXT if datatype == BYTES else element(spec))
    size = struct({"binary_data_size": {"type": "integer", "minimum": 0}})
    own: dict[str, Schema] = {"name": {"const": spec.name}, "datatype": {"const": datatype}, "shape": _SIZES}
    numbers = struct(own, {"data": named(spec, data), "parameters": size})
    if datatype == BYTES or (spec.shape is not None and len(shape_of_classes(spec.shape)) not in RANKS):
        return numbers
    classes = own | {"datatype": {"const": BYTES}}
    return any_of([numbers, struct(classes, {"data": array(TEXT), "parameters": size})])


def inference(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of a prediction, with a model's own bodies."""
    bodies = (f"{model.name}.infer_request", f"{model.name}.infer_response") if model else None
    sent, got = bodies or ("InferRequest", "InferResponse")
    about = "Bytes of the JSON at the beginning of the body, which blobs follow. 0: all of it is one input."
    length = header(JSON_LENGTH, about, {"type": "integer", "minimum": 0})
    text = "The outputs. JSON followed by blobs is application/octet-stream."
    ok = response(text, {JSON: ref(got), BLOBS: BINARY})
    ok["headers"][MODEL_HEADER] = ref(MODEL_HEADER, "headers")
    ok["headers"][JSON_LENGTH] = {"schema": {"type": "integer", "minimum": 1}}
    content = {JSON: {"schema": ref(sent)} | example(_example(model)), BLOBS: {"schema": BINARY}}
    of_sagemaker = [CUSTOM_ATTRIBUTES, *([TARGET_MODEL] if served.any_model else [])]
    return {
        "parameters": [length, *(ref(name, "parameters") for name in of_sagemaker), *REQUEST_IDS],
        "requestBody": {"required": True, "description": BODY, "content": content},
        "responses": served.prediction(ok),
    }


def _example(model: DescribedModel | None) -> Any:
    """Return an example request in JSON, None if there is no short one."""
    signature = model.default if model else None
    found = zeros(signature) if signature else None
    if signature is None or found is None:
        return None
    inputs = []
    for name, zero in found.items():
        datatype = described(signature.inputs[name])["datatype"]
        inputs.append({"name": name, "datatype": datatype, "shape": [*zero.shape], "data": zero.ravel().tolist()})
    return {"inputs": inputs}
