"""Files that are no SavedModel."""

from __future__ import annotations

import errno
from pathlib import Path

from lightbox.model_files.checks import version_problem
from support.descriptors import few_descriptors
from support.models import GOLDEN
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


@each("spare", [0, 1, 2])
def test_a_process_without_descriptors_does_not_blame_the_models_file(spare: int) -> None:
    folder = min(GOLDEN.rglob("saved_model.pb")).parent
    whole = version_problem(folder, "net", 1)
    with few_descriptors(spare):
        try:
            assert version_problem(folder, "net", 1) == whole
        except OSError as error:
            assert error.errno == errno.EMFILE
        else:
            assert spare


def test_recorded_models_are_nothing_else() -> None:
    for file in sorted(GOLDEN.rglob("saved_model.pb")):
        assert "no SavedModel but" not in (version_problem(file.parent, "net", 1) or "")
