"""EfficientDet-D1's eight outputs through both wires: all of them, and a chosen few."""

from __future__ import annotations

import io
import json
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
def chosen(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(
        models, tmp_path_factory.mktemp("chosen"), LIGHTBOX_OPTIONS=json.dumps({"outputs": sorted(FEW)})
    ) as stack:
        yield stack


def detect(stack: Stack, photo: bytes, wire: str) -> dict[str, Any]:
    answer = stack.invoke(photo, X_Amzn_SageMaker_Custom_Attributes=f"tfs-transport={wire}")
    assert answer.status_code == 200, answer.text[:1000]
    (row,) = answer.json()["predictions"]
    return dict(row)


@pytest.fixture(scope="module")
def few_over_grpc(chosen: Stack, photo: bytes) -> dict[str, Any]:
    return detect(chosen, photo, "grpc")


def test_a_chosen_few_agree_between_the_wires(chosen: Stack, photo: bytes, few_over_grpc: dict[str, Any]) -> None:
    grpc, rest = few_over_grpc, detect(chosen, photo, "rest")
    assert grpc.keys() == rest.keys() == FEW
    assert np.shape(grpc["detection_boxes"]) == (100, 4)
    for name in FEW:
        np.testing.assert_allclose(grpc[name], rest[name], rtol=2e-5, atol=1e-6)


def test_all_eight_come_over_both_wires(
    models: Path, photo: bytes, few_over_grpc: dict[str, Any], tmp_path: Path
) -> None:
    with running(models, tmp_path) as stack:
        grpc, rest = detect(stack, photo, "grpc"), detect(stack, photo, "rest")
    assert grpc.keys() == rest.keys() == ALL
    assert np.shape(grpc["raw_detection_scores"])[0] == 76725
    for name in ALL:
        np.testing.assert_allclose(grpc[name], rest[name], rtol=2e-5, atol=1e-6)
    for name in FEW:
        np.testing.assert_allclose(grpc[name], few_over_grpc[name], rtol=1e-5, atol=1e-6)
