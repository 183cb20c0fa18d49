"""The command line, as far as it starts nothing."""

from __future__ import annotations

import pytest

from lightbox.cli import main


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_is_no_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("usage: serve.sh serve|check|tune")


@pytest.mark.parametrize("arguments", [[], ["server"], ["check", "--all"]])
def test_a_wrong_command_gets_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: serve.sh serve|check|tune")
