"""Files of the libraries' own exporters are answered as the libraries answer them, without an option.

tests/exports/make_recipes.py and others have written the files, record_answers.py the answers.
"""

from __future__ import annotations

import json
import lzma
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lightbox
from pixels.pictures import PHOTOS, photo, upright
from support.parameters import each, few_of
from support.scaled_models import said_of

FOLDER = Path(__file__).parents[4] / "exports" / "recipes"
RECORDED: dict[str, Any] = json.loads(lzma.decompress((FOLDER / "answers.json.xz").read_bytes()))
EXPECTED: dict[str, dict[str, Any]] = RECORDED["answers"]
SCORE, PIXELS, OVERLAP = 0.01, 0.501, 0.99  # ModelAPI rounds places to whole pixels
"""How far a score, and a place, may be from the library's, and the least intersection over union of masks."""
SCORES = {"transformers_rt_detr_v2": 0.012}
"""Farther ones: torch's resize rounds its weights to 16 bits, so that 1 of 500 pixels is one level off."""
THRESHOLD = 0.5  # transformers'
ONE_OF_A_KIND = (
    *("libreyolo_yolox", "timm_resnet", "transformers_rt_detr_v2", "torchvision_mask_rcnn"),
    *("ultralytics_obb", "ultralytics_pose"),
)
NOT_PADDED = ("libreyolo_rfdetr", "transformers_yolos", "ultralytics_classify", "ultralytics_rtdetr")


@pytest.mark.parametrize("name", few_of(EXPECTED, *ONE_OF_A_KIND))
def test_the_answers_are_the_librarys(name: str) -> None:
    assert list(EXPECTED[name]) == list(PHOTOS)
    assert sum(map(bool, EXPECTED[name].values())) >= 5
    compare(name)


@pytest.mark.extended
def test_the_photos_are_those_of_the_answers() -> None:
    assert {name: zlib.crc32(upright(name).tobytes()) for name in PHOTOS} == RECORDED["pixels"]


@pytest.mark.extended
@each("name", [*(name for name in EXPECTED if name.startswith(("ultralytics", "libreyolo"))), "transformers_yolos"])
@each("own", [{"resize": "bicubic"}, {"channels": "bgr"}, {"scaling": "tf"}, {"pad": 113}, {"fit": "stretch"}])
def test_other_pixels_have_other_answers(name: str, own: dict[str, Any]) -> None:
    """The networks are such that each option matters; what a fit does not have, or has anyway, is left out."""
    if ("pad" in own or "fit" in own) and name in NOT_PADDED:
        return
    is_bgr = name in ("libreyolo_yolox", "libreyolo_rtmdet")
    with pytest.raises(AssertionError):
        compare(name, **{"channels": "rgb"} if is_bgr and "channels" in own else own)


def compare(name: str, **own: Any) -> None:
    file = next(file for file in (FOLDER / name).glob("model.*") if file.suffix in (".onnx", ".xml", ".tflite"))
    model = lightbox.load(file, engine="onnxruntime" if file.suffix == ".onnx" else "openvino", **own)
    for shown, expected in EXPECTED[name].items():
        if expected is None:  # YOLOS's processor makes no rows of a panorama
            continue
        found = model.predict(photo(shown))
        if not expected or len(expected[0]) > 2:
            compare_objects(found, expected, SCORES.get(name, SCORE))
            continue
        assert [one["class"] for one in found] == [number for number, _ in expected]
        np.testing.assert_allclose([one["score"] for one in found], [score for _, score in expected], atol=SCORE)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "says", "own"),
    [
        ("keras_resizing", "saved_model.pb itself makes 0..1 of 0..255", {}),
        (
            "keras_rescaling",
            "model.onnx itself makes -1..1 of 0..255; no file says how images are resized: set resize, such as nearest "
            "for keras.utils.load_img",
            {"resize": "nearest"},
        ),
    ],
)
def test_the_log_names_what_no_layer_of_keras_says(name: str, says: str, own: dict[str, Any]) -> None:
    assert said_of(FOLDER / name, name) == f"scaling of {name}: none, pixels 0..255 (the default); {says}"
    model = lightbox.load(FOLDER / name, engine="openvino", **own)
    with np.load(FOLDER / "maps.npz") as recorded:
        for shown in PHOTOS:
            np.testing.assert_allclose(model.predict(photo(shown)), recorded[f"{name}|{shown}"], atol=1e-5)


def compare_objects(found: list[dict[str, Any]], expected: list[Any], far: float) -> None:
    """Compare sets of objects; one whose score is at the threshold may be on one side only."""
    left = list(found)
    for number, score, box, *parts in expected:
        wanted = {"class": number, "score": score, "box": box, **(parts[0] if parts else {})}
        alike = [one for one in left if are_alike(one, wanted, far)]
        nearest = np.argmin([abs(one["score"] - score) for one in alike]) if alike else None
        if nearest is None:
            assert abs(score - THRESHOLD) <= SCORE, wanted
        else:
            left.remove(alike[nearest])
    assert not [one for one in left if abs(one["score"] - THRESHOLD) > SCORE]


def are_alike(found: dict[str, Any], wanted: dict[str, Any], far: float) -> bool:
    if found["class"] != wanted["class"] or abs(found["score"] - wanted["score"]) > far:
        return False
    if "corners" in wanted:  # the library's box around them leaves the picture
        return are_near(found["corners"], wanted["corners"])
    if not are_near(found["box"], wanted["box"]):
        return False
    if "keypoints" in wanted:
        points, others = np.array(found["keypoints"]), np.array(wanted["keypoints"])
        return are_near(points[:, :2], others[:, :2]) and np.abs(points - others)[:, 2].max() <= SCORE
    if "counts" not in wanted:
        return True
    mine, theirs = pixels(found["mask"]["counts"]), pixels(wanted["counts"])
    return mine.size == theirs.size and (mine & theirs).sum() >= OVERLAP * (mine | theirs).sum()


def are_near(found: Any, wanted: Any) -> bool:
    return bool(np.abs(np.subtract(found, wanted)).max() <= PIXELS)


def pixels(counts: list[int]) -> npt.NDArray[np.bool_]:
    """Return the pixels of COCO's run lengths, column by column."""
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts)
