"""Bodies of the Open Inference Protocol in OpenAPI."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lightbox.features.open_inference.tensors import BYTES, described
from lightbox.model.spec import SignatureSpec, TensorSpec, describe_shape
from lightbox.openapi import examples
from lightbox.openapi.failures import error_schema
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import TEXT, Schema, any_of, array, bounded, element, named, ref, struct


def schemas(models: Sequence[DescribedModel]) -> dict[str, Schema]:
    """Return what the protocol's routes refer to: its own schemas, and those of the models."""
    shape = array({"type": "integer", "minimum": -1})
    tensor = struct({"name": TEXT, "datatype": TEXT, "shape": shape})
    sizes = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    tensor_data: dict[str, Schema] = {
        "name": TEXT,
        "datatype": TEXT,
        "shape": sizes,
        "data": {"type": "array"},
        "parameters": ref("Parameters"),
    }
    wanted = struct({"name": TEXT, "parameters": ref("Parameters")}, ["parameters"])
    request = {
        "id": TEXT,
        "inputs": array(struct(tensor_data, ["parameters"]), 1),
        "outputs": array(wanted),
        "parameters": ref("Parameters"),
    }
    metadata = {
        "name": TEXT,
        "versions": array(TEXT),
        "platform": TEXT,
        "inputs": array(tensor),
        "outputs": array(tensor),
        "parameters": {"type": "object"},
    }
    return {
        "ServerMetadata": struct({"name": TEXT, "version": TEXT, "extensions": array(TEXT)}),
        "Live": struct({"live": {"const": True}}),
        "Ready": struct({"live": {"const": True}, "ready": {"const": True}}),
        "NotReady": error_schema(live={"type": "boolean"}, ready={"type": "boolean"}),
        "ModelMetadata": struct(metadata, ["parameters"]),
        "RepositoryModel": struct(
            {"name": TEXT, "version": TEXT, "state": {"enum": ["READY", "UNAVAILABLE"]}, "reason": TEXT}
        ),
        "Parameters": {
            "type": "object",
            "properties": {
                "binary_data": {"type": "boolean", "description": "Of an output: return it as a blob."},
                "binary_data_output": {"type": "boolean", "description": "Of a request: return all outputs as blobs."},
                "binary_data_size": {"description": "Of an input: bytes of its blob; as text the bytes of each image."},
            },
        },
        "InferOutput": struct(tensor_data, ["data", "parameters"]),
        "InferRequest": struct(request, ["id", "outputs", "parameters"]),
        "InferResponse": _response([ref("InferOutput")]),
        **{f"{model.name}.infer_request": _requests(model) for model in models},
        **{f"{model.name}.infer_response": _responses(model) for model in models},
    }


def _requests(model: DescribedModel) -> Schema:
    return any_of([_request(signature) for signature in model.signatures])


def _responses(model: DescribedModel) -> Schema:
    forms = []
    for signature in model.signatures:
        items = [_output(spec) for spec in (model.outputs(signature) | dict(signature.outputs)).values()]
        if model.writes_any_body:
            items.append(ref("InferOutput"))
        forms.append(_response(items, model.name))
    return any_of(forms)


def _response(outputs: list[Schema], model: str | None = None) -> Schema:
    """Return the response of the Open Inference Protocol, with outputs of these forms."""
    name: Schema = {"type": "string"} if model is None else {"const": model}
    return struct(
        {
            "model_name": name,
            "model_version": {"type": "string"},
            "outputs": array(any_of(outputs)),
            "id": {"type": "string"},
        },
        ["id"],
    )


def _request(signature: SignatureSpec) -> Schema:
    count = len(signature.inputs)
    inputs = array(any_of([_input(spec) for spec in signature.inputs.values()]), count, count)
    if count > 1:  # in any order
        named = ({"type": "object", "properties": {"name": {"const": name}}} for name in signature.inputs)
        inputs["allOf"] = [{"contains": schema} for schema in named]
    parameters = ref("Parameters")
    wanted = struct({"name": {"enum": [*signature.outputs]}, "parameters": parameters}, ["parameters"])
    return struct(
        {
            "id": {"type": "string"},
            "inputs": inputs,
            "outputs": array(wanted, 0, len(signature.outputs)) | {"uniqueItems": True},
            "parameters": parameters,
        },
        ["id", "outputs", "parameters"],
    )


def _shape(spec: TensorSpec) -> Schema:
    """Return the shape of a tensor: a size for each dimension, the signature's where that fixes one."""
    size: Schema = {"type": "integer", "minimum": 0}
    if not spec.shape:
        return array(size, 0, None if spec.shape is None else 0)
    sizes = [size if fixed is None else {"const": fixed} for fixed in spec.shape]
    return {"type": "array", "prefixItems": sizes, "minItems": len(sizes), "maxItems": len(sizes)}


def _input(spec: TensorSpec) -> Schema:
    """Return an input of the Open Inference Protocol in a request that is all JSON, without blobs."""
    about = described(spec)
    rank = None if spec.shape is None else len(spec.shape)
    item: Schema = {"type": "string"} if about["datatype"] == BYTES else bounded(spec)
    items = item if rank in (0, 1) else any_of([item, {"type": "array"}])
    elements = array(items) | {"description": "The elements, flat or nested as shape says."}
    takes = f"The model takes {describe_shape(spec.shape)}." if spec.shape is not None else "Any shape."
    return struct(
        {
            "name": {"const": spec.name},
            "datatype": {"const": about["datatype"]},
            "shape": _shape(spec) | {"description": takes},
            "data": elements,
            "parameters": ref("Parameters"),
        },
        ["parameters"],
    )


def _output(spec: TensorSpec) -> Schema:
    """Return an output of the Open Inference Protocol in a response."""
    about = described(spec)
    item: Schema = {"type": "string"} if about["datatype"] == BYTES else element(spec)
    return struct(
        {
            "name": {"const": spec.name},
            "datatype": {"const": about["datatype"]},
            "shape": array({"type": "integer", "minimum": 0}),
            "data": named(spec, array(item)),
            "parameters": struct({"binary_data_size": {"type": "integer", "minimum": 0}}),
        },
        ["data", "parameters"],
    )


def example(signature: SignatureSpec) -> Any:
    """Return the JSON of a request of the Open Inference Protocol, None where there is no short one."""
    if not examples.is_shown(signature):
        return None
    inputs = [
        {key: described(spec)[key] for key in ("name", "datatype")}
        | {"shape": examples.sizes(spec), "data": [examples.zero(spec)] * math.prod(examples.sizes(spec))}
        for spec in signature.inputs.values()
    ]
    return {"inputs": inputs}
