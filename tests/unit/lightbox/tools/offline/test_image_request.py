"""lightbox.tools.offline.image_request: the responses of a model and of user code, in rows and as Python has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.offline_colors import PIXELS, colors, load, texts

PAIR = """
import json
import numpy as np

def input_handler(data, context):
    return json.dumps({"instances": np.zeros((1, 3, 224, 224)).tolist()})

def output_handler(response, context):
    return json.dumps(response.json(), indent=1), context.accept_header
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return colors(tmp_path)


def test_a_pair_gets_the_document_and_its_own_is_one_line_of_the_only_prediction(folder: Path) -> None:
    plain = load(folder).predict(PIXELS)
    model = load(folder, PAIR)
    (text,) = texts(model)
    assert model.predict(PIXELS) == plain == json.loads(text or "")
    assert "\n" not in (text or "")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [('{"best": 1}', '{"best":1}'), ('("seven", "text/plain")', '"seven"'), ('b"\\xff"', '{"b64":"/w=="}')],
)
def test_what_user_code_returns_is_the_response(folder: Path, returned: str, expected: str) -> None:
    model = load(folder, f"def postprocess(outputs, request):\n    return {returned}\n")
    assert texts(model) == [expected]
