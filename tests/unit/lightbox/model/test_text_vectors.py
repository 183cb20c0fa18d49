"""Embeddings are compared with a vector of each label."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightbox
from lightbox.base.errors import ModelFailed, StartError
from lightbox.model.text_vectors import read_vectors, similarities
from pixels.pictures import photo
from support.parameters import each

RECIPES = Path(__file__).parents[3] / "exports" / "recipes"
TEXTS = np.random.default_rng(20261129).normal(size=(3, 16)).astype(np.float16)


def clip(folder: Path, texts: Any = TEXTS, **options: Any) -> Path:
    """Write CLIP's half for pictures with options beside it, and return its folder."""
    shutil.copytree(RECIPES / "transformers_clip", folder, dirs_exist_ok=True)
    (folder / "code").mkdir()
    np.save(folder / "code" / "texts.npy", texts)
    own = {"labels": ["cat", "dog", "cow"], "text_vectors": "texts.npy", **options}
    (folder / "code" / "lightbox.json").write_text(json.dumps(own))
    return folder


def test_scores_are_those_of_clip(tmp_path: Path) -> None:
    with np.load(RECIPES / "maps.npz") as recorded:
        embedding = recorded["transformers_clip|tiny"]
    texts = TEXTS.astype(np.float32)
    logits = 20 * texts @ embedding / np.linalg.norm(texts, axis=1) / np.linalg.norm(embedding)
    model = lightbox.load(clip(tmp_path, logit_scale=20, activation="softmax"), engine="onnxruntime")
    found: Any = model.predict(photo("tiny"))
    powers = np.exp(logits)
    expected = sorted(zip(powers / powers.sum(), ["cat", "dog", "cow"], strict=True), reverse=True)
    assert [item["label"] for item in found] == [label for _, label in expected]
    assert np.allclose([item["score"] for item in found], [score for score, _ in expected], atol=2e-3)
    assert np.allclose(
        similarities(embedding[None], str(tmp_path / "code" / "texts.npy"), 20, -1), logits - 1, atol=1e-3
    )


@each(
    ("texts", "options", "problem"),
    [
        (TEXTS[:2], {}, "has 2 vectors, expected one for each of 3 labels"),
        (TEXTS[:, :8], {}, "expected an embedding of 8 numbers, as text_vectors has; the output image_embeds has 16"),
        (TEXTS[0], {}, "expected floats of .texts, dimensions., got float16 of"),
        (np.array([[object()]]), {}, "it is no .npy of numbers"),
        (TEXTS, {"text_vectors": "other.npy"}, "text_vectors: there is no file"),
        (TEXTS, {"text_vectors": "../../texts.npy"}, "text_vectors: '../../texts.npy' leads out of"),
        (TEXTS, {"labels": None}, "works only with labels"),
        (TEXTS, {"map": "classes"}, "expected this or map, got both"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, texts: Any, options: dict[str, Any], problem: str) -> None:
    folder = clip(tmp_path / "net", texts, **options)
    with pytest.raises(StartError, match=problem):
        lightbox.load(folder, engine="onnxruntime")


def test_files_that_change(tmp_path: Path) -> None:
    file = tmp_path / "texts.npy"
    np.save(file, TEXTS)
    assert read_vectors(file).shape == (3, 16)
    with pytest.raises(ModelFailed, match="expected embeddings of 16 numbers, got 4"):
        similarities(np.ones((1, 4), np.float32), str(file), 1, 0)
    file.write_bytes(b"none")
    with pytest.raises(ModelFailed, match=r"cannot be read: it is no \.npy of numbers"):
        similarities(np.ones((1, 4), np.float32), str(file), 1, 0)
    file.unlink()
    with pytest.raises(ModelFailed, match="cannot be read"):
        similarities(np.ones((1, 4), np.float32), str(file), 1, 0)
