"""A number that does not fit a tensor's dtype gets the same error from each request format and from a handler."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from lightbox.base.errors import HandlerFailed, InputMismatch, LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.features.open_inference.grpc.messages import message_class
from lightbox.features.open_inference.grpc.servicer import read_request
from lightbox.features.open_inference.rest.body import parse_body
from lightbox.features.open_inference.tensors import numeric_spec
from lightbox.model.casting import fit, numbers
from lightbox.model.spec import TensorSpec
from support.decoding import decode
from support.fakes import signature
from support.parameters import each
from support.patience import PATIENCE


def _npy(values: list[float]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array(values))
    return stream.getvalue()


def _v2(datatype: str) -> Callable[[list[float]], object]:
    def read(values: list[float]) -> object:
        entry = {"name": "x", "datatype": datatype, "shape": [len(values)], "data": values}
        return parse_body(json.dumps({"inputs": [entry]}).encode(), None, RequestContext(PATIENCE))

    return read


def _grpc(values: list[float]) -> object:
    message = message_class("inference.ModelInferRequest")()
    tensor = message.inputs.add(name="x", datatype="INT8", shape=[len(values)])
    tensor.contents.int_contents.extend(values)
    return read_request(message)


WIRES: dict[str, Callable[[list[float]], object]] = {
    "json": lambda values: decode(json.dumps({"instances": values}), "application/json", {"x": ("int8", (None,))}),
    "csv": lambda values: decode("\n".join(map(str, values)), "text/csv", {"x": ("int8", (None,))}),
    "npy": lambda values: decode(_npy(values), "application/x-npy", {"x": ("int8", (None,))}),
    "v2": _v2("INT8"),
    "v2 over gRPC": _grpc,
    "handler": lambda values: fit({"x": np.array(values)}, signature("m", {"x": ("int8", (None,))}, {})),
}


@each("wire", WIRES)
def test_out_of_range(wire: str) -> None:
    with pytest.raises((InputMismatch, HandlerFailed), match=r"input x: int8 holds -128 to 127, got -200 to 7\b"):
        WIRES[wire]([7, -200])


@each("wire", ["csv", "npy", "v2"])
@each(("values", "sentence"), [([2, 1.5], "1.5"), ([2, math.nan], "nan"), ([2, -math.inf], "-inf")])
def test_no_whole_numbers(wire: str, values: list[float], sentence: str) -> None:
    with pytest.raises(InputMismatch, match=f"input x: expected whole numbers for int8, got {sentence}$"):
        WIRES[wire](values)


def test_a_long_number_is_not_given_back() -> None:
    with pytest.raises(InputMismatch) as caught:
        WIRES["csv"]([10**300])
    assert caught.value.message.endswith("got 1e+300 to 1e+300")


def test_beyond_a_float() -> None:
    with pytest.raises(InputMismatch, match="input x: a number is beyond the range of float16"):
        _v2("FP16")([70000.0])
    with pytest.raises(InputMismatch, match="input x: a number is beyond the range of float16"):
        decode('{"instances": [70000]}', "application/json", {"x": ("float16", (None,))})


def test_integers_stay_exact_beside_whole_floats() -> None:
    found = numbers([2**62 + 1, 3.0], TensorSpec("x", "int64", None))
    assert found.tolist() == [2**62 + 1, 3]


def test_float16_is_rounded_once() -> None:
    """A conversion through float32 would round this value to a tie, and then to 2048."""
    value = 2049.0000001
    found = decode(json.dumps({"instances": [value]}), "application/json", {"x": ("float16", (None,))})
    assert found.inputs["x"].tolist() == [float(np.float16(value))] == [2050.0]


@each("datatype", ["BYTES", "BF16", "int8", ""])
def test_datatypes_of_no_numbers(datatype: str) -> None:
    with pytest.raises(LightboxError, match="expected one of the datatypes"):
        numeric_spec("x", datatype)
