"""Command lines and configurations: exit codes, messages, and accepted oddities, as in the real server."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lightbox.model_runtime.server import main
from lightbox.model_runtime.server.flags import FLAGS, OWN_FLAGS, parse, usage
from lightbox.model_runtime.wire import RELEASE
from lightbox.tools.harness.ports import free_ports
from support import commands
from support.isolation import own_environ
from support.model_server import COMMAND, GOLDEN, MODELS, ModelServer, config_text

pytestmark = pytest.mark.extended

HALF = f"--model_base_path={MODELS}/half_plus_two"
EMPTY_TEXT = "Both server_options.model_base_path and server_options.model_config_file are empty!"


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return commands.run([*COMMAND, *flags], env=own_environ())


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ([], f"INVALID_ARGUMENT: {EMPTY_TEXT}"),
        (
            ["--model_name=x", "--model_base_path=life/x"],
            "INVALID_ARGUMENT: Expected model x to have an absolute path or URI; got base_path()=life/x",
        ),
        (
            ["--port=0", HALF],
            "INVALID_ARGUMENT: At least one of server_options.grpc_port or"
            " server_options.grpc_socket_path must be set.",
        ),
        (
            ["--model_config_file=/nonexistent/models.config"],
            "NOT_FOUND: /nonexistent/models.config; No such file or directory",
        ),
        (
            ["--enable_batching", "--batching_parameters_file=/nonexistent", HALF],
            "NOT_FOUND: /nonexistent; No such file or directory",
        ),
        (
            ["--batching_parameters_file=/nonexistent", HALF],
            "INVALID_ARGUMENT: server_options.batching_parameters_file is set without setting"
            " server_options.enable_batching to true.",
        ),
        (["--ssl_config_file=/nonexistent", HALF], "NOT_FOUND: /nonexistent; No such file or directory"),
    ],
)
def test_does_not_start(flags: list[str], error: str) -> None:
    ended = run(*flags)
    assert ended.returncode == 255
    assert ended.stdout.splitlines()[-1] == f"Failed to start server. Error: {error}"


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--rest_api_num_threads=abc", "Couldn't interpret value abc for flag rest_api_num_threads."),
        ("--enable_batching=maybe", "Couldn't interpret value maybe for flag enable_batching."),
        ("--port=99999999999", "Couldn't interpret value 99999999999 for flag port."),
    ],
)
def test_values_that_cannot_be_read(flag: str, text: str) -> None:
    ended = run(flag)
    assert (ended.returncode, ended.stderr.strip()) == (255, text)
    assert ended.stdout.startswith("usage: ")


def test_help_names_every_flag_with_its_default() -> None:
    ended = run("--help")
    assert ended.returncode == 255
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("usage: ")
    assert lines[1] == "Flags:"
    recorded = [line.split("\t") for line in (GOLDEN / "flags.tsv").read_text().splitlines()]
    assert [(flag.name, flag.kind) for flag in FLAGS] == [(name, kind) for name, kind, _ in recorded]
    by_cpus = {"rest_api_num_threads", "grpc_max_threads", "num_tflite_pools"}
    for flag, (name, _, default) in zip(FLAGS, recorded, strict=True):
        assert name in by_cpus or flag.shown() == f"--{name}={default}"
    assert usage("x").count("\n\t--") == len(recorded) + len(OWN_FLAGS)
    assert not {flag.name for flag in OWN_FLAGS} & {name for name, _, _ in recorded}


def test_version() -> None:
    ended = run("--version")
    assert ended.returncode == 0
    first, second = ended.stdout.splitlines()
    assert first.startswith("TensorFlow ModelServer: ")
    assert second.startswith("TensorFlow Library: ")


def test_version_without_the_packages_that_have_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert main.main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"TensorFlow ModelServer: {RELEASE} (Lightbox's embedded model server)"
    assert second == "TensorFlow Library: not installed"


def test_a_bool_may_stand_alone_and_unknown_words_are_kept() -> None:
    options = parse(["--enable_batching", "-port=1", "foo", "--nope", "--port", "2", "--model_name="])
    assert options.enable_batching is True
    assert options.port == 8500
    assert options.model_name == ""
    assert options.unknown == ["-port=1", "foo", "--nope", "--port", "2"]


def test_unknown_words_and_flags_without_effect_do_not_stop_the_server(tmp_path: Path) -> None:
    flags = ["--flush_filesystem_caches=false", "--skip_initialize_tpu", "--mixed_precision=x"]
    with ModelServer(tmp_path, "--model_name=half", HALF, *flags, "--no_such_flag=1") as server:
        server.wait_ready()
        assert server.stdout.startswith("unknown argument: --no_such_flag=1\nusage: ")
        lines = [line for line in server.stderr.splitlines() if "without effect" in line]
    assert len(lines) == 1
    assert "--flush_filesystem_caches, --mixed_precision, --skip_initialize_tpu" in lines[0]


def test_the_gRPC_port_is_taken(tmp_path: Path) -> None:  # noqa: N802
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with ModelServer(tmp_path, "--model_name=half", HALF, f"--port={port}", ports=False) as server:
            assert server.wait_end() == 255
            error = "Failed to start server. Error: INVALID_ARGUMENT: Failed to BuildAndStart gRPC server"
            assert server.stdout.splitlines()[-1] == error


def test_the_REST_port_is_taken(tmp_path: Path) -> None:  # noqa: N802
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = [f"--grpc_socket_path={tmp_path}/socket", "--port=0", f"--rest_api_port={port}"]
        with ModelServer(tmp_path, "--model_name=half", HALF, *flags, ports=False) as server:
            server.until(lambda: f"Failed to start HTTP Server at localhost:{port}" in server.stderr)
            assert server.process.poll() is None


def test_one_port_for_both(tmp_path: Path) -> None:
    port = free_ports()
    flags = [f"--port={port}", f"--rest_api_port={port}"]
    with ModelServer(tmp_path, "--model_name=half", HALF, *flags, ports=False) as server:
        server.until(lambda: "server_options.http_port cannot be same as grpc_port." in server.stderr)
        server.until(lambda: "Running gRPC ModelServer" in server.stderr)


def test_models_without_a_name_and_an_empty_list_run(tmp_path: Path) -> None:
    path = tmp_path / "models.config"
    path.write_text(config_text('base_path: "/models/slow" model_platform: "tensorflow"'))
    with ModelServer(tmp_path / "1", f"--model_config_file={path}") as server:
        server.wait_ready()
    path.write_text("model_config_list { }")
    with ModelServer(tmp_path / "2", f"--model_config_file={path}") as server:
        server.wait_ready()
        assert server.predict("slow", instances=[1])[0] == 404


def test_labels_in_the_first_configuration_with_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "models.config"
    labels = 'version_labels { key: "here" value: 2 } version_labels { key: "far" value: 9 }'
    path.write_text(config_text(f'name: "h" base_path: "/models/half_plus_two" model_platform: "tensorflow" {labels}'))
    flag = "--allow_version_labels_for_unavailable_models=true"
    with ModelServer(tmp_path, f"--model_config_file={path}", flag) as server:
        server.wait_ready()
        assert server.predict("h/labels/here", instances=[1.0]) == (200, {"predictions": [3.5]})
        error = "Servable not found for request: Specific(h, 9)"
        assert server.predict("h/labels/far", instances=[1.0]) == (404, {"error": error})
