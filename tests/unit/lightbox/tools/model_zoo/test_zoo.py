"""A model in each form."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("form", ["float32", "uint8", "bytes"])
def test_each_form_has_its_signature(digits_forms: dict[str, Path], signature: Any, form: str) -> None:
    root = digits_forms[form]
    name = {"float32": "input_tensor", "uint8": "image", "bytes": "image_bytes"}[form]
    (inputs,) = signature(root).structured_input_signature[1].values()
    assert inputs.name == name
    assert inputs.dtype.name == {"bytes": "string"}.get(form, form)
    assert inputs.shape.as_list() == ([None] if form == "bytes" else [None, 8, 8, 3])
    outputs = signature(root).structured_outputs
    assert {name: output.shape.as_list() for name, output in outputs.items()} == {"probabilities": [None, 10]}
