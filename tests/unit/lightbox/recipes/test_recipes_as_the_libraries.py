"""Files of the libraries' own exporters are answered as the libraries answer them, without an option.

tests/exports/make_recipes.py has written files and answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import lightbox
from pixels.pictures import png
from support.parameters import each

FOLDER = Path(__file__).parents[3] / "exports" / "recipes"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())["answers"]
SCORE, PIXELS = 0.01, 0.5
"""How far a score and the side of a box may be from the library's."""


@each("name", EXPECTED)
def test_the_answers_are_the_librarys(name: str) -> None:
    model = lightbox.load(FOLDER / name / "model.onnx", engine="onnxruntime")
    for picture, expected in EXPECTED[name].items():
        found = model.predict(png(picture))
        if not expected or len(expected[0]) == 3:
            compare_objects(found, expected)
            continue
        assert [one["class"] for one in found] == [number for number, _ in expected]
        np.testing.assert_allclose([one["score"] for one in found], [score for _, score in expected], atol=SCORE)


def compare_objects(found: list[dict[str, Any]], expected: list[Any]) -> None:
    left = list(found)
    for number, score, box in expected:
        for one in left:
            near = np.abs(np.subtract(one["box"], box)).max() <= PIXELS
            if near and one["class"] == number and abs(one["score"] - score) <= SCORE:
                left.remove(one)
                break
    assert (len(left), len(found)) == (0, len(expected))
