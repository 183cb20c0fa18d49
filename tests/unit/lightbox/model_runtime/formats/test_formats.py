"""Signatures and problems read from a file of each format, and the choice of the model file in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_files.checks import signatures_of, version_problem
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.formats import as_model_file, model_file, platform
from support.model_files import FILES, write_dense_as
from support.models import GOLDEN

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"


@pytest.mark.parametrize("name", FILES)
def test_which_file_it_is(tmp_path: Path, name: str) -> None:
    suffix = Path(name).suffix
    assert model_file(tmp_path) is None
    write_dense_as(tmp_path / f"net{suffix}")
    only = model_file(tmp_path)
    assert only is not None
    assert only.path == tmp_path / f"net{suffix}"
    write_dense_as(tmp_path / "other.onnx")
    assert model_file(tmp_path) is None
    assert version_problem(tmp_path, "m", 1) == (
        f"{tmp_path} holds net{suffix} and other.onnx: expected one of them, or one named model{suffix}"
    )
    write_dense_as(tmp_path / name)
    named = model_file(tmp_path)
    assert named is not None
    assert named.path == tmp_path / name
    (tmp_path / "saved_model.pb").touch()
    assert model_file(tmp_path) is None
    assert platform(tmp_path) == "tensorflow_savedmodel"


@pytest.mark.parametrize("name", FILES)
def test_another_file_in_its_place_is_a_sentence(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    write_dense_as(file)
    assert version_problem(tmp_path, "m", 1) is None
    assert list(signatures_of(tmp_path, "m", 1)["serving_default"].inputs) == ["x"]
    others = [(GOLDEN / "half_plus_two" / "1" / "saved_model.pb").read_bytes(), b"", b"garbage" * 10, b"<html></html>"]
    for other in FILES:
        if other != name:
            write_dense_as(tmp_path / "others" / other)
            others.append((tmp_path / "others" / other).read_bytes())
    for content in others:
        file.write_bytes(content)
        assert str(version_problem(tmp_path, "m", 1)).startswith(f"{file} cannot be read as ")
    file.write_bytes(POINTER)
    assert str(version_problem(tmp_path, "m", 1)).startswith(f"{file} is a pointer of git-lfs")


@pytest.mark.parametrize("name", FILES)
def test_wherever_it_is_cut_it_is_a_sentence(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    write_dense_as(file)
    whole = file.read_bytes()
    unread = 62 if name == "model.tflite" else 5  # bytes of the operator list, which only a load reads
    for size in range(1, len(whole) - unread, 7):
        file.write_bytes(whole[:size])
        assert str(version_problem(tmp_path, "m", 1)).startswith(f"{file} cannot be read as ")


def test_weights_that_are_missing_cut_or_a_pointer(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "model.xml")
    weights = tmp_path / "model.bin"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    said = f"{tmp_path}/model.xml cannot be read as a model of OpenVINO's IR: "
    assert version_problem(tmp_path, "m", 1) == f"{said}{weights} has 47 bytes, expected 48"
    weights.write_bytes(POINTER[:40])
    assert str(version_problem(tmp_path, "m", 1)).startswith(f"{weights} is a pointer of git-lfs")
    weights.unlink()
    assert version_problem(tmp_path, "m", 1) == f"{said}{weights} is missing"


def test_xml_without_weights_is_not_taken_for_a_model(tmp_path: Path) -> None:
    (tmp_path / "notes.xml").write_text("<notes/>")
    assert model_file(tmp_path) is None
    assert "OpenVINO's IR: MODEL_DIR/NAME/1/model.xml is served with model.bin" in str(
        version_problem(tmp_path, "m", 1)
    )


def test_a_link_leads_to_what_lies_beside_the_file(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "kept" / "net.xml")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.xml").symlink_to(tmp_path / "kept" / "net.xml")
    assert version_problem(tmp_path / "1", "m", 1) is None
    found = model_file(tmp_path / "1")
    assert found is not None
    assert found.parts() == [tmp_path / "kept" / "net.xml", tmp_path / "kept" / "net.bin"]


@pytest.mark.parametrize("name", FILES)
def test_links_to_a_store_of_blobs(tmp_path: Path, name: str) -> None:
    """File names in a blob store have no suffix. The engine opens the link, beside the links to the other files."""
    write_dense_as(tmp_path / "store" / name)
    (tmp_path / "1").mkdir()
    for number, file in enumerate(sorted((tmp_path / "store").iterdir())):
        (tmp_path / "1" / file.name).symlink_to(file.rename(file.with_name(f"{number:064}")))
    assert version_problem(tmp_path / "1", "m", 1) is None
    assert named("openvino").open(str(tmp_path / "1"), OpenOptions(Hardware(1, 1), ("serve",))).runner.signatures
    shown = tmp_path / "shown" / name
    shown.parent.mkdir()
    shown.symlink_to(tmp_path / "1" / name)
    found = as_model_file(shown)
    assert found is not None
    assert found.place() == tmp_path / "1" / name
