"""Error texts hide the location of the models' folders from callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lightbox.base import error_texts
from lightbox.base.error_texts import shown, without_folders
from lightbox.transports.base import from_server
from lightbox.transports.model_management import _translate
from lightbox.user_code.handlers import call


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk" / "models"
    folder.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(folder)
    error_texts.hide({"LIGHTBOX_MODEL_DIR": link})
    yield link
    error_texts.hide({})


def test_the_folder_goes_and_what_is_below_it_stays(models: Path) -> None:
    assert without_folders(f"{models}/a/1 holds no saved_model.pb") == "LIGHTBOX_MODEL_DIR/a/1 holds no saved_model.pb"
    assert without_folders(f"no file '{models.resolve()}'.") == "no file 'LIGHTBOX_MODEL_DIR'."


def test_other_paths_stay(models: Path) -> None:
    for other in (f"{models}-old/a", f"/mnt{models}", f"{models}2", "no path at all"):
        assert without_folders(other) == other


def test_the_root_is_no_secret() -> None:
    error_texts.hide({"LIGHTBOX_MODEL_DIR": Path("/")})
    assert without_folders("/etc") == "/etc"


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "INTERNAL", "DATA_LOSS"])
def test_what_the_model_server_says_names_no_folder(models: Path, code: str) -> None:
    said = f"{{{{node table}}}} {models.resolve()}/m/1/assets/words.txt; No such file or directory"
    for error in (from_server(code, said, "m", 1), _translate(code, said)):
        assert str(models.resolve()) not in error.message
        assert "LIGHTBOX_MODEL_DIR/m/1/assets/words.txt" in error.message


def test_what_a_handler_raises_names_no_folder(models: Path) -> None:
    def handler() -> None:
        (models / "code" / "labels.txt").read_text()

    with pytest.raises(Exception, match=r"LIGHTBOX_MODEL_DIR/code/labels\.txt") as caught:
        call(handler)
    assert str(models) not in str(caught.value)
    assert str(models) in str(caught.value.__cause__)


def test_what_python_cannot_write_is_shown_by_its_kind() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep, 80) == "list nested too deep"
    assert shown([1, None], 4) == "[1, "
