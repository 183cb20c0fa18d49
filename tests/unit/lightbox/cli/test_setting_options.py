"""The command line, up to the start of the first process."""

from __future__ import annotations

import os
import signal
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lightbox import __version__
from lightbox.base.settings import variable_names
from lightbox.cli import COMMANDS, main, serve
from lightbox.cli.setting_options import SettingOption
from lightbox.cli.starting import interruptible
from lightbox.serving.settings_loading import parts
from lightbox.supervisor.supervisor import STOP_SIGNALS
from lightbox.tools.harness.ports import free_ports
from support.isolation import clean_environ
from support.model_files import write_dense_as
from support.models import copy_golden
from support.parameters import each
from support.real_binary import real_binary

from ..conftest import AsIfStarted

pytestmark = pytest.mark.usefixtures("check_starts_no_server")
Check = Callable[..., tuple[int, str]]
PAIR = """
def input_handler(data, context): return data.read()
def output_handler(response, context): return response.content, "application/json"
"""


@each("words", [["help"], ["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)])
def test_help_is_no_error_and_has_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.lower().startswith("usage: lightbox")
    assert "Example: " in said or words[0] == "model-server"
    assert "  [MODEL]\n" not in said, "an argument among the options"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "Commands:"),
        (["dance"], "No such command 'dance'."),
        (["chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["serve", "--prot", "80"], "'--port'"),
        (["deploy", "craete"], "No such command 'craete'. Did you mean 'create'?"),
        (["serve", "models", "more"], "Got unexpected extra argument (more)"),
    ],
)
def test_a_wrong_command_line_gets_a_hint(arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("Usage: lightbox")
    assert hint in said


def test_a_command_whose_packages_are_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, COMMANDS["stream"], raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(["stream", "frames"]) == 1
    assert "pip install 'lightbox-serve[tools]'" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "Not available" in capsys.readouterr().out


def test_what_a_command_finds_missing_when_it_runs_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    assert main(["invoke", str(tmp_path / "photo.jpg"), "--endpoint-name", "digits"]) == 1
    assert capsys.readouterr().err == "Error: it needs the package botocore: pip install 'lightbox-serve[aws]'\n"
    monkeypatch.setitem(sys.modules, "keras", None)
    assert main(["export", "digits", str(tmp_path / "digits")]) == 1
    assert "it needs the package keras: pip install 'lightbox-serve[tensorflow]'" in capsys.readouterr().err
    assert not (tmp_path / "digits").exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lightbox {__version__}\n"


def test_each_setting_is_an_option_and_each_option_of_serve_a_setting() -> None:
    options = {option.variable for option in serve.command.params if isinstance(option, SettingOption)}
    assert options == {variable_names(name, part)[0] for part in parts() for name in part.model_fields}
    assert [param.name for param in serve.command.params if not isinstance(param, SettingOption)] == ["model"]
    spelled = [word for option in serve.command.params for word in (*option.opts, *option.secondary_opts)]
    assert len(spelled) == len(set(spelled)), "two options have one name"


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run ``lightbox check`` with command-line options only; return its exit code and output."""
    copy_golden("half_plus_two", tmp_path / "models" / "half_plus_two")
    monkeypatch.setattr(
        os, "environ", {**clean_environ(), "TMPDIR": str(tmp_path), "LIGHTBOX_MODEL_SERVER": "embedded"}
    )

    def check(*words: str) -> tuple[int, str]:
        code = main(["check", "--port", str(free_ports()), *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return check


def test_an_option_is_the_variable(plan: Check, tmp_path: Path) -> None:
    code, said = plan(str(tmp_path / "models"), "--transport", "rest", "--without-metrics", "--workers", "3")
    assert code == 0, said
    assert {"LIGHTBOX_TRANSPORT=rest", "LIGHTBOX_METRICS=False", "SAGEMAKER_GUNICORN_WORKERS=3"} <= {
        line.partition("  #")[0] for line in said.splitlines()
    }
    assert f"model: half_plus_two in {tmp_path}/models/half_plus_two (default)" in said


def test_a_model_that_is_typed_wins_over_the_variables(plan: Check, tmp_path: Path) -> None:
    os.environ["LIGHTBOX_MODELS"] = f"other={tmp_path}/nowhere"
    code, said = plan(str(tmp_path / "models"))
    assert code == 0, said
    assert "model: half_plus_two in" in said
    code, said = plan(str(tmp_path / "models"), "--model", f"a={tmp_path}/models")
    assert code == 2
    assert "MODEL and --model exclude each other" in said


def test_what_is_wrong_with_an_option_names_the_option(plan: Check, tmp_path: Path) -> None:
    code, said = plan(str(tmp_path / "nowhere"), "--workers", "many", "--transport", "soap", "--engine", "openvno")
    assert code == 1
    lines = said.splitlines()
    assert any(line.startswith("--workers: expected an integer") for line in lines), said
    assert any(line.startswith("--engine: expected ") for line in lines), said
    assert any(line.startswith("--transport: expected inside, local, grpc, rest") for line in lines), said
    assert f"MODEL: the model directory {tmp_path}/nowhere does not exist" in lines


def test_models_have_the_names_that_they_are_given(plan: Check, tmp_path: Path) -> None:
    write_dense_as(tmp_path / "net.onnx")
    half = tmp_path / "models" / "half_plus_two"
    code, said = plan("--model", f"one={half}", "--model", f"two={tmp_path}/net.onnx", "--default-model", "two")
    assert code == 0, said
    assert f"model: one in {half}\n" in said
    assert f"model: two in {tmp_path}/net.onnx (default)" in said
    copy_golden("half_plus_two", tmp_path / "half plus (2)")
    code, said = plan("--model", f"one={tmp_path}/half plus (2)", "--default-model", "one")
    assert code == 0, said
    for name in ("half", "other"):
        copy_golden("half_plus_two", tmp_path / "several" / name)
    code, said = plan("--model", "one")
    assert [line for line in said.splitlines() if "model directory" in line] == [], "it speaks of the default folder"
    for wrong, words in [
        ("one", "--model: expected NAME=PATH"),
        (f"..={tmp_path}/models", "--model: '..' cannot be a model's name: expected letters, digits"),
        (f"{'a' * 256}={tmp_path}/models", "at most 255 characters"),
        (f"a={tmp_path}/models/none", f"--model: a: the model directory {tmp_path}/models/none does not exist"),
        (f"a={tmp_path}/several", "--model: a: expected one model in"),
        (f"..={half}", "--model: '..' cannot be a model's name: expected letters, digits"),
    ]:
        code, said = plan("--model", wrong)
        assert code == 1
        assert words in said


def test_a_file_has_no_folder_of_code(plan: Check, tmp_path: Path) -> None:
    write_dense_as(tmp_path / "net.onnx")
    code, said = plan(f"{tmp_path}/net.onnx")
    assert code == 0, said
    assert "using the built-in request handling (no inference.py)" in said
    code, said = plan(f"{tmp_path}/net.onnx", "--labels", "none.txt")
    assert code == 1
    assert "--labels: there is no file none.txt" in said.splitlines()


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz"])
def test_an_archive_is_a_folder_of_models(plan: Check, tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"model{suffix}"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "models", arcname=".")
    code, said = plan(str(archive))
    assert code == 0, said
    assert "model: half_plus_two in " in said
    assert not list(tmp_path.glob("lightbox-*")), "what was unpacked was left behind"
    assert f"LIGHTBOX_MODEL_DIR={archive}  # default: /opt/ml/model" in said.splitlines()
    archive.write_bytes(archive.read_bytes()[:-200])
    code, said = plan(str(archive))
    assert code == 1
    assert f"MODEL: {archive}: the archive is cut off" in said
    assert not list(tmp_path.glob("lightbox-*"))


def test_what_is_wrong_in_an_archive_names_the_archive(plan: Check, tmp_path: Path) -> None:
    archive = tmp_path / "a model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "models" / "half_plus_two", arcname=".")
    code, said = plan(str(archive))
    assert code == 1
    assert f"MODEL: {archive} cannot be a model's name: expected letters" in said


def test_without_nginx_what_needs_it_is_refused(plan: Check, tmp_path: Path) -> None:
    code, said = plan(str(tmp_path / "models"), "--without-nginx")
    assert code == 0, said
    assert "nginx: none" in said
    assert "on loopback: HTTP of the sidecar, without nginx" in said
    code, said = plan(str(tmp_path / "models"), "--without-nginx", "--page", "--cors-origins", "*")
    assert code == 1
    assert "--without-nginx: expected nginx, for LIGHTBOX_CORS_ORIGINS; got a start without it" in said


def test_signals_that_a_supervisor_ignores_stay_ignored() -> None:
    """Python drops its signal handlers before it exits. A late signal would then kill the process."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        with interruptible():
            assert all(signal.getsignal(number) is not handlers[number] for number in STOP_SIGNALS)
            with interruptible():
                pass
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == handlers[signal.SIGINT]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes(shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["completion", shell]) == 0
    assert "_LIGHTBOX_COMPLETE" in capsys.readouterr().out
    for words, expected in [("lightbox che", "check"), ("lightbox serve --tra", "--transport")]:
        monkeypatch.setenv("_LIGHTBOX_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit, match="0"):
            main([])
        assert expected in capsys.readouterr().out


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
        ({}, "", ["transports: grpc"]),
        ({"LIGHTBOX_TRANSPORT": "rest"}, "", ["transports: rest", "port 8501 on all interfaces: REST"]),
        (
            {},
            PAIR,
            ["transports: grpc", "port 9000 on all interfaces: gRPC", "half/code/inference.py has AWS's handlers"],
        ),
        ({"LIGHTBOX_MODEL_SERVER": "embedded"}, "", ["transports: local, grpc, rest"]),
        ({"LIGHTBOX_MODEL_SERVER": "embedded"}, PAIR, ["transports: local, grpc, rest", "port 9000 on loopback: gRPC"]),
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
    short = {"TMPDIR": str(tmp_path_factory.mktemp("t"))}  # short enough for socket paths
    port = free_ports()
    short |= {"SAGEMAKER_BIND_TO_PORT": str(port), "SAGEMAKER_SAFE_PORT_RANGE": ""}
    as_if_started(short | {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models")} | real_binary(tmp_path) | environ)
    assert main(["check"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in expected), said
    assert f"listening: port {port} on all interfaces: HTTP for callers" in said
    assert ("the model server; " in said) == (len(expected) > 1)
