"""Schemas of tensors: which values they take, checked with a validator of OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest

from lightbox.model.spec import TensorSpec
from lightbox.openapi.schemas import any_of, bounded, nested
from support.openapi import validator
from support.parameters import each

pytestmark = pytest.mark.extended


@each(
    ("dtype", "taken", "refused"),
    [
        ("bool", [True], [1]),
        ("int8", [-128, 127], [-129, 128, 0.5]),
        ("uint8", [0, 255], [-1, 256]),
        ("int64", [-(2**63), 2**63 - 1], [2**63]),
        ("float32", [1, 3.4e38], [3.5e38]),
        ("string", ["a", {"b64": "YQ=="}], [1]),
    ],
)
def test_an_element_is_within_its_dtype(dtype: str, taken: list[Any], refused: list[Any]) -> None:
    check = validator(bounded(TensorSpec("x", dtype, ())), {})
    assert [value for value in [*taken, *refused] if check.is_valid(value)] == taken


def test_lists_are_nested_as_the_shape_is() -> None:
    check = validator(nested({"type": "integer"}, (None, 2)), {})
    assert check.is_valid([])
    assert check.is_valid([[1, 2], [3, 4]])
    assert not check.is_valid([[1]])
    assert not check.is_valid([1, 2])
    assert nested({}, None) == {}


def test_equal_schemas_stand_once() -> None:
    assert any_of([{"type": "string"}, {"type": "string"}]) == {"type": "string"}
    assert any_of([]) == {}
