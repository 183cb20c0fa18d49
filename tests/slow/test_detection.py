"""EfficientDet-D1's eight outputs through both wires: all of them, and a chosen few."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support import photos
from support.stack import Stack, running

ALL = {
    "detection_anchor_indices",
    "detection_boxes",
    "detection_classes",
    "detection_multiclass_scores",
    "detection_scores",
    "num_detections",
    "raw_detection_boxes",
    "raw_detection_scores",
}
FEW = {"detection_boxes", "detection_classes", "detection_scores", "num_detections"}


@pytest.fixture(scope="module")
def models(detector: Path) -> Path:
    return detector.parent


@pytest.fixture(scope="module")
def photo() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(photos.photo("china.jpg")).save(buffer, "jpeg")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def detecting(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(models, tmp_path_factory.mktemp("detecting")) as stack:
        yield stack


def detect(stack: Stack, photo: bytes, wire: str, outputs: str = "") -> dict[str, Any]:
    answer = stack.invoke(photo, X_Amzn_SageMaker_Custom_Attributes=f"tfs-transport={wire}{outputs}")
    assert answer.status_code == 200, answer.text[:1000]
    (row,) = answer.json()["predictions"]
    return dict(row)


def test_all_eight_and_a_chosen_few_come_over_both_wires(detecting: Stack, photo: bytes) -> None:
    found = {wire: detect(detecting, photo, wire) for wire in ("grpc", "rest")}
    assert found["grpc"].keys() == found["rest"].keys() == ALL
    assert np.shape(found["grpc"]["raw_detection_scores"])[0] == 76725
    assert np.shape(found["grpc"]["detection_boxes"]) == (100, 4)
    for name in ALL:
        np.testing.assert_allclose(found["grpc"][name], found["rest"][name], rtol=2e-5, atol=1e-6)
    for wire, answer in found.items():
        few = detect(detecting, photo, wire, f",tfs-outputs={','.join(sorted(FEW))}")
        assert few == {name: answer[name] for name in FEW}
