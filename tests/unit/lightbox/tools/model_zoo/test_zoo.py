"""Each model by name, in each form."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("form", ["float32", "uint8", "bytes"])
@pytest.mark.parametrize("model", ["mobilenet_v2", "digits"])
def test_each_form_has_its_signature(request: pytest.FixtureRequest, signature: Any, model: str, form: str) -> None:
    root: Path = request.getfixturevalue(f"{model}_forms")[form]
    side, classes = {"mobilenet_v2": (224, 1000), "digits": (8, 10)}[model]
    name = {"float32": "input_tensor", "uint8": "image", "bytes": "image_bytes"}[form]
    (inputs,) = signature(root).structured_input_signature[1].values()
    assert inputs.name == name
    assert inputs.dtype.name == {"bytes": "string"}.get(form, form)
    assert inputs.shape.as_list() == ([None] if form == "bytes" else [None, side, side, 3])
    outputs = signature(root).structured_outputs
    assert {name: output.shape.as_list() for name, output in outputs.items()} == {"probabilities": [None, classes]}
