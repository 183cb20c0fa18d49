"""The command line, as far as it starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.cli import main
from lightbox.harness.ports import free_ports
from support.models import copy_golden
from support.real_binary import real_binary

from .conftest import AsIfStarted

PAIR = """
def input_handler(data, context): return data.read()
def output_handler(response, context): return response.content, "application/json"
"""


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_is_no_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("usage: serve.sh serve|check|engines|tune|try")


@pytest.mark.parametrize("arguments", [[], ["server"], ["check", "--everything"]])
def test_a_wrong_command_gets_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: serve.sh serve|check|engines|tune|try")


def test_check_warns_of_a_misspelled_name_of_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_golden("half_plus_two", tmp_path / "half_plus_two")
    monkeypatch.setenv("LIGHTBOX_MODEL_DIR", str(tmp_path))
    monkeypatch.setenv("LIGHTBOX_MODEL_SERVER", "embedded")
    monkeypatch.setenv("SAGEMAKER_GUNICORN_WORKER", "2")
    monkeypatch.setenv("SAGEMAKER_BIND_TO_PORT", str(free_ports()))
    assert main(["check"]) == 0
    hint = "SAGEMAKER_GUNICORN_WORKER: there is no such setting; did you mean SAGEMAKER_GUNICORN_WORKERS?"
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"warning: {hint}",
        "",
        "verdict: a start would serve; warnings: 1",
    ]


@pytest.mark.parametrize(
    ("environ", "code", "expected"),
    [
        ({}, "", ["wires: grpc"]),
        ({"LIGHTBOX_TRANSPORT": "rest"}, "", ["wires: rest", "port 8501 on all interfaces: REST"]),
        ({}, PAIR, ["wires: grpc", "port 9000 on all interfaces: gRPC", "half/code/inference.py has AWS's handlers"]),
        ({"LIGHTBOX_MODEL_SERVER": "embedded"}, "", ["wires: local, grpc, rest", "port 9000 on loopback: gRPC"]),
    ],
)
def test_check_says_what_would_listen(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    as_if_started: AsIfStarted,
    capsys: pytest.CaptureFixture[str],
    environ: dict[str, str],
    code: str,
    expected: list[str],
) -> None:
    copy_golden("half_plus_two", tmp_path / "models" / "half")
    if code:
        (tmp_path / "models" / "half" / "code").mkdir()
        (tmp_path / "models" / "half" / "code" / "inference.py").write_text(code)
    short = {"TMPDIR": str(tmp_path_factory.mktemp("t"))}  # with room for sockets
    port = free_ports()
    short["SAGEMAKER_BIND_TO_PORT"] = str(port)
    as_if_started(short | {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models")} | real_binary(tmp_path) | environ)
    assert main(["check"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in expected), said
    assert f"listening: port {port} on all interfaces: HTTP for callers" in said
    assert ("the model server; " in said) == (len(expected) > 1)


def test_check_has_a_line_about_the_scaling_of_each_model_of_floating_point_pixels(
    sample_models: Path, as_if_started: AsIfStarted, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"SAGEMAKER_BIND_TO_PORT": str(free_ports()), "LIGHTBOX_MODEL_SERVER": "embedded"}
    as_if_started(own | {"LIGHTBOX_MODEL_DIR": str(sample_models)})
    assert main(["check"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("scaling of ")]
    assert [line.split(",")[0] for line in lines] == ["scaling of digits: unit", "scaling of mobilenet_v2: tf"]
