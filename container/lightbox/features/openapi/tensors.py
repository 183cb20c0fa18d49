"""Tensors and a model's signatures as JSON Schema: bodies of /invocations and of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightbox.features.open_inference.tensors import BYTES, described
from lightbox.model.options import ModelOptions
from lightbox.model.ranking import DEFAULT_TOP_K, is_detector
from lightbox.model.spec import SignatureSpec, TensorSpec, describe_shape, image_input

Schema = dict[str, Any]

BASE64: Schema = {
    "type": "object",
    "description": "Bytes, encoded in base64.",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
    "additionalProperties": False,
}
_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}
EXAMPLES = "Examples"
RESULTS = "Results"
_METHOD_OUTPUTS = ("classes", "scores", "outputs")


def struct(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """Return an object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def array(items: Schema, least: int = 0, most: int | None = None) -> Schema:
    """Return an array of ``least`` to ``most`` items."""
    bounds = {"minItems": least} if least else {}
    return {"type": "array", "items": items} | bounds | ({} if most is None else {"maxItems": most})


def any_of(schemas: Sequence[Schema]) -> Schema:
    """Return a schema that any of these satisfies, each once; ``{}`` for none."""
    different = [schema for index, schema in enumerate(schemas) if schema not in schemas[:index]]
    return {"anyOf": different} if len(different) > 1 else dict(*different)


def element(spec: TensorSpec) -> Schema:
    """Return one element of a tensor in JSON; ``{}`` for a dtype that JSON has no form for."""
    dtype = spec.dtype
    if spec.is_string:
        return BASE64 if spec.name.endswith("_bytes") else any_of([{"type": "string"}, BASE64])
    if dtype == "bool":
        return {"type": "boolean"}
    sign, _, bits = dtype.rpartition("int")
    if bits.isdigit() and sign in ("", "u"):
        size = int(bits)
        low, high = (0, 2**size - 1) if sign else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
        return {"type": "integer", "minimum": low, "maximum": high}
    if dtype.startswith("float"):
        return {"type": "number"}
    return {}


def bounded(spec: TensorSpec) -> Schema:
    """Return one element of an input: a number may not be beyond its dtype."""
    if spec.is_string:
        return any_of([{"type": "string"}, BASE64])
    largest = _LARGEST.get(spec.dtype)
    return element(spec) | ({} if largest is None else {"minimum": -largest, "maximum": largest})


def nested(item: Schema, shape: Sequence[int | None] | None) -> Schema:
    """Return nested lists of a shape; anything where the rank is unknown."""
    if shape is None:
        return {}
    for size in reversed(shape):
        item = array(item, size or 0, size)
    return item


def named(spec: TensorSpec, schema: Schema) -> Schema:
    """Return a schema of a tensor, described by the tensor's name, dtype and shape."""
    return schema | {"description": str(spec)}


def _row(spec: TensorSpec, item: Schema) -> Schema:
    return named(spec, nested(item, None if spec.shape is None else spec.shape[1:]))


def _rows_or_none(specs: Mapping[str, TensorSpec]) -> bool:
    return all(spec.shape is None or spec.shape for spec in specs.values())


def _instances(signature: SignatureSpec) -> list[Schema]:
    """Return the forms of one instance: a value for the only input or, by name, one for each."""
    rows = {name: _row(spec, bounded(spec)) for name, spec in signature.inputs.items()}
    if len(rows) != 1:
        return [struct(rows)]
    ((name, row),) = rows.items()
    picture = image_input(signature)
    forms = (
        [row] if picture is None or picture.encoded else [row, {"type": "string", "contentEncoding": "base64"}, BASE64]
    )
    return [*forms, struct({name: any_of(forms)})]


def _columns(signature: SignatureSpec) -> list[Schema]:
    """Return the forms of whole inputs: the only one, or each by name."""
    whole = {name: named(spec, nested(bounded(spec), spec.shape)) for name, spec in signature.inputs.items()}
    return [*(whole.values() if len(whole) == 1 else ()), struct(whole)]


def request_body(signatures: Sequence[SignatureSpec], has_default: bool) -> Schema:
    """Return the JSON of a request of predict, and of classify and regress where a signature can.

    ``has_default`` tells that the first signature needs no name.
    """
    forms: list[Schema] = []
    for index, signature in enumerate(signatures):
        name = {"signature_name": {"const": signature.name}}
        optional = ["signature_name"] if has_default and index == 0 else []
        if _rows_or_none(signature.inputs):
            instances = {"instances": array(any_of(_instances(signature)), 1)}
            forms.append(struct(instances | name, optional))
        forms.append(struct({"inputs": any_of(_columns(signature))} | name, optional))
        if _takes_examples(signature):
            forms.append({"$ref": f"#/components/schemas/{EXAMPLES}"})
    if has_default and _rows_or_none(signatures[0].inputs):
        forms.append(array(any_of(_instances(signatures[0])), 1) | {"description": "The instances themselves."})
    return any_of(forms)


def _takes_examples(signature: SignatureSpec) -> bool:
    return (
        len(signature.inputs) == 1
        and all(spec.is_string for spec in signature.inputs.values())
        and any(name in signature.outputs for name in _METHOD_OUTPUTS)
    )


def chosen(signature: SignatureSpec, options: ModelOptions) -> dict[str, TensorSpec]:
    """Return the outputs that a response has, where the request names none."""
    return {name: spec for name, spec in signature.outputs.items() if not options.outputs or name in options.outputs}


def response_body(signatures: Sequence[SignatureSpec], options: ModelOptions) -> Schema:
    """Return the JSON of a response: rows, whole outputs, classes by name, or results of classify and regress."""
    forms: list[Schema] = []
    for signature in signatures:
        outputs = chosen(signature, options)
        ranked = ranked_row(outputs, options)
        if ranked is not None:
            forms.append(struct({"predictions": array(ranked)}))
        if ranked is None or any(spec.shape is None for spec in outputs.values()):
            forms += _plain(outputs)
        if _takes_examples(signature):
            forms.append({"$ref": f"#/components/schemas/{RESULTS}"})
    return any_of(forms)


def _answered(spec: TensorSpec, shape: Sequence[int | None] | None) -> Schema:
    """Return nested lists of a shape or others: the model server may take inputs of other shapes than declared."""
    item = element(spec)
    return named(spec, {} if shape is None or not item else any_of([nested(item, shape), item, {"type": "array"}]))


def _plain(outputs: Mapping[str, TensorSpec]) -> list[Schema]:
    rows = {name: _answered(spec, None if spec.shape is None else spec.shape[1:]) for name, spec in outputs.items()}
    whole = {name: _answered(spec, spec.shape) for name, spec in outputs.items()}
    by_column = [*(whole.values() if len(whole) == 1 else ()), struct(whole)]
    by_row = next(iter(rows.values())) if len(rows) == 1 else struct(rows)
    forms = [struct({"predictions": array(by_row)})] if _rows_or_none(outputs) else []
    return [*forms, struct({"outputs": any_of(by_column)})]


def ranked_row(outputs: Mapping[str, TensorSpec], options: ModelOptions) -> Schema | None:
    """Return the classes of one row that ``labels`` and ``top_k`` ask for, None where they ask for none."""
    if options.labels is None and options.top_k is None:
        return None
    label: Schema = {"type": "string"} | ({"enum": sorted({*options.labels})} if options.labels else {})
    item = {"label": label, "class": {"type": "integer", "minimum": 0}, "score": {"type": "number"}}
    unnamed = [] if options.labels else ["label"]
    if is_detector(outputs):
        box = array({"type": "number"}, 4, 4) | {"description": "As the model gives it."}
        item["class"] = {"type": "integer"}
        return array(struct(item | {"box": box}, ["label"]), 0, options.top_k)
    if len(outputs) != 1:
        return None
    (spec,) = outputs.values()
    if spec.is_string or (spec.shape is not None and len(spec.shape) != 2):
        return None
    return array(struct(item, unnamed), 0, options.top_k or DEFAULT_TOP_K)


def _shape(spec: TensorSpec) -> Schema:
    """Return the shape of a tensor: a size for each dimension, the signature's where that fixes one."""
    size: Schema = {"type": "integer", "minimum": 0}
    if not spec.shape:
        return array(size, 0, None if spec.shape is None else 0)
    sizes = [size if fixed is None else {"const": fixed} for fixed in spec.shape]
    return {"type": "array", "prefixItems": sizes, "minItems": len(sizes), "maxItems": len(sizes)}


def infer_input(spec: TensorSpec) -> Schema:
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
            "parameters": {"$ref": "#/components/schemas/Parameters"},
        },
        ["parameters"],
    )


def infer_output(spec: TensorSpec) -> Schema:
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
