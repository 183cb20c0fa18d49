"""How the benchmark counts accuracy, and the pictures it sends."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from benchmark import accuracy
from benchmark.accuracy import HOUSE_CATS, SIDE, Picture, Row, page, pictures
from lightbox.model_zoo.efficientnet_lite0 import class_names


def row(*best: tuple[int, float]) -> Row:
    """Predictions for a cat and a fish: the best class of each and its probability."""
    probabilities = np.zeros((len(best), 1000), np.float32)
    for number, (name, value) in enumerate(best):
        probabilities[number, [0, 1, name]] = 0.1, 0.05, value
    shown = [Picture("p", "cat.png", HOUSE_CATS), Picture("p", "fish.png", (1,))]
    return Row("Lightbox, engine", "grpc", shown, probabilities)


def test_any_class_of_a_picture_is_right() -> None:
    assert row((281, 0.8), (1, 0.9)).top(1) == 2
    assert row((285, 0.8), (7, 0.9)).top(1) == 1
    assert row((285, 0.8), (7, 0.9)).top(5) == 2


def test_the_largest_difference_counts() -> None:
    assert row((281, 0.8), (1, 0.9)).difference(row((281, 0.8), (1, 0.5))) == pytest.approx(0.4)


def test_the_page_shows_figures_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "measured_with", lambda document: "Measured today.")
    text = page([row((281, 0.8), (7, 0.5)), row((281, 0.8), (1, 0.9))], {})
    assert "| engine | 1 of 2 | 2 of 2 | 0.85 |" in text
    assert "- p, fish.png: goldfish is called cock" in text


def test_pictures_are_sent_large_with_classes_that_have_names() -> None:
    shown = pictures()
    assert len(shown) == 23
    names = class_names()
    assert len(names) == 1000
    assert [names[number] for picture in shown[-3:] for number in picture.classes] == [
        "military uniform",
        "espresso",
        "tabby",
        "tiger cat",
        "Egyptian cat",
    ]
    with Image.open(io.BytesIO(shown[-1].jpeg())) as image:
        assert (image.format, min(image.size)) == ("JPEG", SIDE)
