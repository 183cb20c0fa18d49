"""Parts of the document: schemas of tensors, and building blocks of schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightbox.model.spec import TensorSpec
from lightbox.model_runtime.wire.dtypes import LARGEST_FLOAT

Schema = dict[str, Any]

BASE64: Schema = {
    "type": "object",
    "description": "Bytes, encoded in base64.",
    "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["b64"],
    "additionalProperties": False,
}
TEXT: Schema = {"type": "string"}
BINARY: Schema = {"type": "string", "format": "binary"}


def ref(name: str, kind: str = "schemas") -> dict[str, str]:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def struct(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": [*required],
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
    largest = LARGEST_FLOAT.get(spec.dtype)
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
