"""An archive laid out as the detection zoo publishes it, made from the seeded detector."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_zoo import published
from model_zoo.layout import Refused
from model_zoo.saved_model import export


def pack(saved_model: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(saved_model, "efficientdet_d1_coco17_tpu-32/saved_model")
    return archive


def test_the_archived_model_answers_behind_our_input_as_it_did(detector: Path, predict: Any, tmp_path: Path) -> None:
    model = published.image_model(pack(detector / "1", tmp_path / "model.tar.gz"))
    export(model, "uint8", tmp_path / "exported")
    pixels = np.random.default_rng(7).integers(0, 256, (1, 640, 640, 3), dtype=np.uint8)
    expected, found = predict(detector, pixels), predict(tmp_path / "exported", pixels)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert not model.random


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(b"not an archive")
    with pytest.raises(Refused, match=r"model.tar.gz is not a .tar.gz archive"):
        published.image_model(path)


def test_an_archive_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refused, match="must hold one SavedModel; it holds 0"):
        published.image_model(pack(tmp_path / "folder", tmp_path / "model.tar.gz"))


def test_another_kind_of_model_is_refused(samples: Path, tmp_path: Path) -> None:
    archive = pack(samples / "digits" / "1", tmp_path / "model.tar.gz")
    with pytest.raises(Refused, match="is no detector of the zoo: it lacks detection_anchor_indices, "):
        published.image_model(archive)


def test_a_failed_download_says_what_else_can_be_done(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.setattr(published, "ARCHIVE_URL", f"http://127.0.0.1:{closed_port}/model.tar.gz")
    with pytest.raises(Refused, match=r"cannot be downloaded \(.*refused\): .* --archive FILE"):
        published.image_model(None)
