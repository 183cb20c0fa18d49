"""Folders of models: versions and settings that are there already."""

import json
from pathlib import Path
from typing import Any

import pytest

from lightbox.cli import main

pytestmark = pytest.mark.extended


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_a_present_version_is_not_replaced_unasked(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (out / "1" / "saved_model.pb").read_bytes()
    assert refusal(["digits", str(out)], capsys) == (
        f"Error: {out} has version 1 already: pass --version 2 to put a new one beside it, or --force to replace it"
    )
    assert "has version 1 already" in refusal(["digits", "--version", "1", str(out)], capsys)
    assert (out / "1" / "saved_model.pb").read_bytes() == before


def test_another_scaling_is_not_written_over_the_shared_one(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["digits", "--input", "uint8", "--version", "2", str(out)], capsys)
    assert 'lightbox.json says "scaling": "unit" for every version of this model' in line
    assert 'this export needs "none": choose another folder, or pass --force' in line
    assert not (out / "2").exists()


def test_force_replaces_the_newest_version_and_keeps_other_settings(
    out: Path, monkeypatch: pytest.MonkeyPatch, trained_digits: Any
) -> None:
    monkeypatch.setattr("lightbox.tools.model_zoo.digits.trained_model", lambda: trained_digits)
    (out / "1").rename(out / "7")
    (out / "code" / "lightbox.json").write_text('{"scaling": "unit", "top_k": 3}')
    before = (out / "7" / "saved_model.pb").stat().st_ino
    assert main(["export", "digits", "--input", "uint8", "--force", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["7", "code"]
    assert (out / "7" / "saved_model.pb").stat().st_ino != before
    settings = json.loads((out / "code" / "lightbox.json").read_text())
    assert settings == {"scaling": "none", "top_k": 3}


def test_a_new_version_stands_beside_the_old_one(
    out: Path, monkeypatch: pytest.MonkeyPatch, trained_digits: Any
) -> None:
    monkeypatch.setattr("lightbox.tools.model_zoo.digits.trained_model", lambda: trained_digits)
    assert main(["export", "digits", "--version", "2", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["1", "2", "code"]


def test_settings_that_cannot_be_read_are_not_written_over(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = out / "code" / "lightbox.json"
    settings.write_text("{")
    assert f"{settings} is not JSON" in refusal(["digits", "--version", "2", str(out)], capsys)
    settings.write_text("[]")
    assert "must hold a JSON object, not []" in refusal(["digits", "--version", "2", str(out)], capsys)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "model"
    assert refusal(["digits", str(out)], capsys) == (f"Error: {out} cannot be made: {tmp_path / 'file'} is no folder")
