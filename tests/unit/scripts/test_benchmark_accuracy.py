"""How the benchmark counts accuracy, and the pictures it sends."""

from __future__ import annotations

import numpy as np

from benchmark.accuracy import HOUSE_CATS, LabelledImage, Row, table


def row(*best: tuple[int, float]) -> Row:
    """Predictions for a cat and a fish: the best class of each and its probability."""
    probabilities = np.zeros((len(best), 1000), np.float32)
    for number, (name, value) in enumerate(best):
        probabilities[number, [0, 1, name]] = 0.1, 0.05, value
    shown = [LabelledImage("p", "cat.png", HOUSE_CATS), LabelledImage("p", "fish.png", (1,))]
    return Row("Lightbox, engine", "grpc", shown, probabilities)


def test_the_table_shows_the_worst_of_the_transports() -> None:
    lines = table([row((281, 0.8), (7, 0.5)), row((281, 0.8), (1, 0.9))])
    assert "| engine | 1 of 2 | 2 of 2 | 0.85 |" in lines
