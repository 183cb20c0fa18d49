"""Which files describe a model, and which recipe counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lightbox.model.options import ModelOptions, RecipeError
from lightbox.model_files.checks import newest_signatures, reading_once
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import changed_key, find_recipe
from lightbox.model_files.recipes.files import MOST_NAMES, class_names
from support.recipes import of_ultralytics, resolved, write_network
from unit.lightbox.model_files.recipes.test_timm import CONFIG

LOGITS = {"logits": np.zeros((1, 3))}


def write_config(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def test_files_lie_beside_the_model_or_in_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "net"
    model = ModelOnDisk("net", home)
    file = write_network(home / "1" / "model.onnx", LOGITS)
    assert resolved(file, model=model).recipe_source == ""
    write_config(home)
    assert resolved(file, model=model).recipe_source == str(home / "config.json")
    write_config(home / "1")
    assert resolved(file, model=model).recipe_source == str(home / "1" / "config.json")


def test_a_file_in_the_folder_onnx_is_described_above_it(tmp_path: Path) -> None:
    file = write_network(tmp_path / "onnx" / "model.onnx", LOGITS)
    write_config(tmp_path)
    assert resolved(file).recipe_source == str(tmp_path / "config.json")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    write_config(tmp_path / "other")
    file = write_network(tmp_path / "net" / "net.onnx", LOGITS)
    (tmp_path / "net" / "config.json").symlink_to(tmp_path / "other" / "config.json")
    assert resolved(file).recipe_source == ""
    found = find_recipe(ModelOnDisk("net", file, unversioned=True), allowed=[tmp_path / "other"])
    assert found is not None
    assert found.source == str(tmp_path / "net" / "config.json")


@pytest.mark.parametrize(("text", "words"), [("{", "is not JSON"), ("[]", "expected an object, got list")])
def test_a_broken_file_is_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    file = write_network(tmp_path / "net.onnx", LOGITS)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RecipeError, match=words):
        resolved(file)


def test_of_two_recipes_one_has_to_be_chosen(tmp_path: Path) -> None:
    boxes = {"output0": np.zeros((1, 4 + 2, 84))}
    file = write_network(tmp_path / "net.onnx", boxes, metadata=of_ultralytics("detect", ["a", "b"]))
    write_config(tmp_path)
    with pytest.raises(RecipeError, match=r"disagree; set it to one of ultralytics, timm, or to none"):
        resolved(file)
    assert resolved(file, {"recipe": "ultralytics"}).detections == "ultralytics"
    assert resolved(file, {"recipe": "timm"}).detections is None
    with pytest.raises(RecipeError, match="expected files with transformers's recipe"):
        resolved(file, {"recipe": "transformers"})


def test_the_steps_of_a_start_read_a_file_once(tmp_path: Path) -> None:
    model = ModelOnDisk("net", write_network(tmp_path / "net.onnx", LOGITS), unversioned=True)
    with reading_once():
        assert list(newest_signatures(model)["serving_default"].outputs) == ["logits"]
        write_network(tmp_path / "net.onnx", {"scores": np.zeros((1, 3))})
        with reading_once():
            assert list(newest_signatures(model)["serving_default"].outputs) == ["logits"]
    assert list(newest_signatures(model)["serving_default"].outputs) == ["scores"]


def test_names_of_classes_are_bounded() -> None:
    assert class_names({"1": "b", "0": "a"}, "net", "names") == ("a", "b")
    with pytest.raises(RecipeError, match="net: names: expected 1 to 100,000 names"):
        class_names(["x"] * (MOST_NAMES + 1), "net", "names")


def test_a_new_version_may_have_another_recipe(tmp_path: Path) -> None:
    """Requests are answered with the options of the start: other names for the same classes would be wrong."""
    boxes = {"output0": np.zeros((1, 4 + 2, 84))}
    for version, names in (("1", "ab"), ("2", "ab"), ("3", "ba")):
        write_network(tmp_path / version / "model.onnx", boxes, metadata=of_ultralytics("detect", names))
    write_network(tmp_path / "4" / "model.onnx", boxes)
    versions = [ModelOnDisk("net", tmp_path / str(number), unversioned=True) for number in (1, 2, 3, 4)]
    options = resolved(tmp_path / "1", model=versions[0])
    assert [changed_key(one, options) for one in versions] == [None, None, "labels", "detections"]
    assert changed_key(versions[2], ModelOptions()) is None
