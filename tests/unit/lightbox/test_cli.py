"""The command line, as far as it starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.cli import main
from support.models import copy_golden


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_is_no_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("usage: serve.sh serve|check|engines|tune")


@pytest.mark.parametrize("arguments", [[], ["server"], ["check", "--all"]])
def test_a_wrong_command_gets_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: serve.sh serve|check|engines|tune")


def test_check_warns_of_a_misspelled_name_of_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_golden("half_plus_two", tmp_path / "half_plus_two")
    monkeypatch.setenv("LIGHTBOX_MODEL_DIR", str(tmp_path))
    monkeypatch.setenv("LIGHTBOX_MODEL_SERVER", "embedded")
    monkeypatch.setenv("SAGEMAKER_GUNICORN_WORKER", "2")
    assert main(["check"]) == 0
    hint = "SAGEMAKER_GUNICORN_WORKER: there is no such setting; did you mean SAGEMAKER_GUNICORN_WORKERS?"
    assert capsys.readouterr().out.splitlines()[-1] == f"warning: {hint}"
