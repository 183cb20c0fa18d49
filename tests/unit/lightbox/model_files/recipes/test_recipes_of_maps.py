"""Maps and embeddings are those of their libraries, in the size of the picture, without an option.

tests/exports/make_recipes_of_maps.py and of_anomalies.py have written the files, record_answers.py the answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import lightbox
from lightbox.model.spec import Array
from pixels.pictures import PHOTOS, photo, sampled
from support.parameters import few_of

FOLDER = Path(__file__).parents[4] / "exports" / "recipes"
with np.load(FOLDER / "maps.npz") as recorded:
    EXPECTED: dict[str, Any] = dict(recorded)
ANOMALIES = ("anomalib_padim", "openvino_anomaly")
NAMES = dict.fromkeys(name.partition("|")[0] for name in EXPECTED if not name.startswith((*ANOMALIES, "keras")))
LEAST_SAME, USUAL, FAR = 0.999, 2e-3, 2e-2
"""The least share of pixels of the same class, and how far numbers may be apart by their span, in the mean and at most:
libraries round resized pixels otherwise, which drawn networks make much of."""
USUALS = {"transformers_convnext_features": 3e-3}
"""A farther one: sixteen numbers of a grey photo of 16 bits."""


@pytest.mark.parametrize("name", few_of(NAMES, "ultralytics_semantic", "transformers_segformer", "transformers_dpt"))
def test_maps_and_embeddings_are_the_librarys(name: str) -> None:
    model = loaded(name)
    for shown in PHOTOS:
        expected, found = EXPECTED[f"{name}|{shown}"], cast("Any", model.predict(photo(shown)))
        if expected.dtype == np.uint8:
            assert (class_map(found, expected.shape) == expected).mean() >= LEAST_SAME, shown
            assert len(np.unique(expected)) > 1
        else:
            apart = np.abs(sampled(np.asarray(found)) - expected) / np.ptp(expected)
            assert apart.shape == expected.shape
            assert (apart.mean() <= USUALS.get(name, USUAL), apart.max() <= FAR) == (True, True), shown


@pytest.mark.parametrize("name", few_of(ANOMALIES, "openvino_anomaly"))
def test_anomalies_are_those_of_openvinos_modelapi(name: str) -> None:
    model = loaded(name)
    for posted in PHOTOS:
        (score, is_one), mask = (EXPECTED[f"{name}|{posted}|{part}"] for part in ("score", "mask"))
        found: Any = model.predict(photo(posted))
        assert [item["class"] for item in found] == ([1, 0] if is_one else [0, 1])
        assert sum(item["score"] for item in found) == pytest.approx(1)
        ((anomaly, part),) = ((item, item["mask"]) for item in found if item["class"] == 1)
        assert anomaly["label"] == ("anomalous" if name == "anomalib_padim" else "Broken")
        assert anomaly["score"] == pytest.approx(score, abs=1e-3)
        shown = np.repeat(np.arange(len(part["counts"])) % 2, part["counts"]).reshape(mask.shape[::-1]).T
        assert (shown == mask).mean() >= LEAST_SAME
        assert anomaly["share"] == pytest.approx(shown.mean(), abs=1e-5)


def loaded(name: str) -> lightbox.Model:
    """Load the file of a folder with the engine that follows its format."""
    file = next(iter(FOLDER.joinpath(name).glob("model.[ox][nm]*[lx]")))
    return lightbox.load(file, engine="openvino" if file.suffix == ".xml" else "onnxruntime")


def class_map(areas: list[dict[str, Any]], shape: tuple[int, ...]) -> Array:
    """Return the map that run lengths of classes describe: each pixel is of one class."""
    found = np.full(shape[::-1], -1)
    for area in areas:
        assert area["mask"]["size"] == list(shape)
        ends = np.cumsum(area["mask"]["counts"])
        for start, end in zip(ends[::2], ends[1::2], strict=False):
            assert (found.reshape(-1)[start:end] == -1).all()
            found.reshape(-1)[start:end] = area["class"]
        named = area.get("label", str(area["class"]))
        assert named == "background" or named.endswith(str(area["class"]))
    assert (found >= 0).all()
    shares = [area["share"] for area in areas]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-4)
    return found.T
