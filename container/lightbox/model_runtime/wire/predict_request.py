"""Parses a serialized PredictRequest without copying its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from google.protobuf.message import DecodeError

from lightbox.model_runtime.wire.dtypes import DT_STRING
from lightbox.model_runtime.wire.messages import model_pb2, predict_pb2, tensor_pb2, tensor_shape_pb2
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, VARINT, read_fields, read_varint

_DTYPE, _SHAPE = tensor_pb2.TensorProto.DTYPE_FIELD_NUMBER, tensor_pb2.TensorProto.TENSOR_SHAPE_FIELD_NUMBER
_CONTENT = tensor_pb2.TensorProto.TENSOR_CONTENT_FIELD_NUMBER
_DIM = tensor_shape_pb2.TensorShapeProto.DIM_FIELD_NUMBER
_ASKED = predict_pb2.PredictRequest


def read_predict_request(data: memoryview) -> tuple[predict_pb2.PredictRequest, dict[str, memoryview]]:
    """Return a message without its inputs' ``tensor_content``, and these by the inputs' names: views of ``data``.

    A message with an unusual layout is parsed as a whole, without views. Raises DecodeError for malformed bytes.
    """
    try:
        return _predict_request(data)
    except (ValueError, DecodeError):
        return _ASKED.FromString(bytes(data)), {}


def _predict_request(data: memoryview) -> tuple[predict_pb2.PredictRequest, dict[str, memoryview]]:
    request, contents = _ASKED(), dict[str, memoryview]()
    for number, kind, value in read_fields(data, _MOST_PARTS):
        if kind != LENGTH_DELIMITED:
            raise ValueError(f"field {number} is of another wire type")
        if number == _ASKED.MODEL_SPEC_FIELD_NUMBER:
            request.model_spec.MergeFromString(bytes(value))
        elif number == _ASKED.OUTPUT_FILTER_FIELD_NUMBER:
            request.output_filter.append(str(value, "utf-8"))
        elif number == _ASKED.INPUTS_FIELD_NUMBER:
            name, tensor = _two(read_fields(value), (1, LENGTH_DELIMITED), (2, LENGTH_DELIMITED))
            key, parts = str(name, "utf-8"), list(read_fields(tensor, len(_WITH_CONTENT)))
            dtype = read_varint(parts[0][2], 0)[0] if parts else DT_STRING
            if key in contents or dtype == DT_STRING or [part[:2] for part in parts] != _WITH_CONTENT:
                raise ValueError("an input is given twice, or is not in the usual order")
            request.inputs[key].dtype = dtype
            request.inputs[key].tensor_shape.MergeFromString(bytes(parts[1][2]))
            contents[key] = parts[2][2]
        else:
            raise ValueError(f"field {number} is not usual")
    return request, contents


_MOST_PARTS = 16 << 10
"""The parser in C is faster for more."""
_WITH_CONTENT = [(_DTYPE, VARINT), (_SHAPE, LENGTH_DELIMITED), (_CONTENT, LENGTH_DELIMITED)]


def read_predict_head(data: bytes) -> tuple[model_pb2.ModelSpec, dict[str, int]]:
    """Return the model and the rank of each input of a serialized PredictRequest; tensors are not copied.

    A message with an unusual layout is parsed as a whole. Raises ValueError for malformed bytes.
    """
    with suppress(ValueError, DecodeError):
        return _predict_head(data)
    try:
        request = predict_pb2.PredictRequest.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return request.model_spec, {name: len(item.tensor_shape.dim) for name, item in request.inputs.items()}


def _predict_head(data: bytes) -> tuple[model_pb2.ModelSpec, dict[str, int]]:
    """Return the same as ``read_predict_head``; raise ValueError for an unusual layout.

    Parsers differ for a repeated field: some merge, some take one.
    """
    spec, ranks = model_pb2.ModelSpec(), {}
    for number, kind, value in read_fields(memoryview(data), _MOST_PARTS):
        if kind != LENGTH_DELIMITED:
            continue
        if number == predict_pb2.PredictRequest.MODEL_SPEC_FIELD_NUMBER:
            spec.MergeFromString(bytes(value))
        elif number == predict_pb2.PredictRequest.INPUTS_FIELD_NUMBER:
            name, tensor = _two(read_fields(value), (1, LENGTH_DELIMITED), (2, LENGTH_DELIMITED))
            _, shape = _two(islice(read_fields(tensor), 2), (_DTYPE, VARINT), (_SHAPE, LENGTH_DELIMITED))
            if (key := str(name, "utf-8")) in ranks:
                raise ValueError("an input is given twice")
            parts = read_fields(shape, _MOST_PARTS)
            ranks[key] = sum((part, kind) == (_DIM, LENGTH_DELIMITED) for part, kind, _ in parts)
    return spec, ranks


def _two(
    found: Iterable[tuple[int, int, memoryview]], first: tuple[int, int], second: tuple[int, int]
) -> tuple[memoryview, memoryview]:
    """Return the values of two fields. Raises ValueError unless the message has exactly these."""
    values = list(islice(found, 3))
    if [(number, kind) for number, kind, _ in values] != [first, second]:
        raise ValueError("the fields are not in their usual order")
    return values[0][2], values[1][2]
