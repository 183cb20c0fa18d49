"""Files that are no SavedModel."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lightbox.model.options import own_options
from lightbox.model_files import checks
from lightbox.model_files.checks import version_problem
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.saved_model import check_whole, serving_graph
from lightbox.serving.settings_loading import load_settings
from support.descriptors import few_descriptors
from support.models import GOLDEN
from support.onnx_models import write_dense
from support.parameters import each

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
TOLD_OF_POINTER = "is a pointer of git-lfs, not the file itself: run git lfs pull"


def put(root: Path, name: str, content: bytes = b"x") -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@each(
    ("content", "sentence"),
    [
        (b"", "is empty: the copy is missing or not complete"),
        (POINTER, TOLD_OF_POINTER),
        (b"\x89HDF\r\n\x1a\n", "is not a SavedModel but an HDF5 file"),
        (b"PK\x03\x04rest", "is not a SavedModel but a zip file"),
        (b"\x1f\x8b\x08rest", "is not a SavedModel but compressed with gzip"),
        (b"<?xml version='1.0'?><Error>", "is not a SavedModel but a page of HTML or XML"),
        (b"\n\x05\n\x03abc", "is not a SavedModel but a graph without variables and signatures, as frozen graphs are"),
    ],
)
def test_something_else_under_the_name_of_a_saved_model(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = put(tmp_path, "1/saved_model.pb", content)
    said = version_problem(tmp_path / "1", "net", 1)
    assert said is not None
    assert said.startswith(f"{file} {sentence}")


READERS: dict[str, Callable[[Path], object]] = {
    "a folder": lambda root: version_problem(root / "1", "net", 1),
    "its links": lambda root: list(checks._read_of(root / "1")),
    "a graph": lambda root: serving_graph(root / "1" / "saved_model.pb"),
    "its variables": lambda root: check_whole(root / "1"),
    "a file": lambda root: checks.signatures_of(root / "2", "net", 2),
    "notes": lambda root: checks.notes_beside(root / "2"),
    "the newest version": lambda root: checks.newest_signatures(ModelOnDisk("net", root)),
    "options": lambda root: own_options([root], load_settings({})),
}


@each("reader", READERS)
def test_a_process_without_descriptors_blames_no_file_of_a_model(tmp_path: Path, reader: str) -> None:
    shutil.copytree(min(GOLDEN.rglob("saved_model.pb")).parent, tmp_path / "1")
    (tmp_path / "2").mkdir()
    write_dense(tmp_path / "2" / "model.onnx")
    put(tmp_path, "2/metadata.yaml", b"task: detect")
    put(tmp_path, "lightbox.json", b"{}")
    READERS[reader](tmp_path)
    with few_descriptors(), pytest.raises(OSError, match="Too many open files"):
        READERS[reader](tmp_path)


def test_recorded_models_are_nothing_else() -> None:
    for file in sorted(GOLDEN.rglob("saved_model.pb")):
        assert "no SavedModel but" not in (version_problem(file.parent, "net", 1) or "")
