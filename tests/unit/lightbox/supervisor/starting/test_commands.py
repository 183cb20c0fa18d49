"""Command lines of the child processes, and what the settings give the model server."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.errors import StartError
from lightbox.base.run_dir import RunDir
from lightbox.model.plan import ModelServerAddress
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.commands import (
    engine_flags,
    gunicorn_command,
    model_server_flags,
    model_server_program,
    worker_class_line,
)
from lightbox.supervisor.starting.model_server_config import batching_parameters
from support.parameters import each

SOCKET = Path("/run/x.sock")
ADDRESS = ModelServerAddress(grpc_socket=SOCKET, grpc_port=1, rest_port=2)


@pytest.mark.parametrize("in_progress", [60, 120])
def test_its_own_limit_of_calls_is_far_above_what_is_sent(in_progress: int) -> None:
    flags = model_server_flags(load_settings({}), ADDRESS, Path("/run"), in_progress)
    limits = dict(flag.split("=", 1) for flag in flags)
    assert int(limits["--grpc_max_threads"]) >= 4 * in_progress
    assert int(limits["--rest_api_num_threads"]) >= in_progress


@each(
    ("environ", "sentence"),
    [
        ({}, ["max_batch_size { value: 8 }", "batch_timeout_micros { value: 1000 }"]),
        ({"SAGEMAKER_TFS_ENABLE_BATCHING": "True"}, ["--enable_batching=true", "--batching_parameters_file="]),
        ({"SAGEMAKER_TFS_MAX_BATCH_SIZE": "5"}, ["max_batch_size { value: 5 }"]),
        ({"SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "5"}, ["batch_timeout_micros { value: 5 }"]),
        ({"SAGEMAKER_TFS_NUM_BATCH_THREADS": "5"}, ["num_batch_threads { value: 5 }"]),
        ({"SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "5"}, ["max_enqueued_batches { value: 5 }"]),
        ({"SAGEMAKER_BATCH": "True"}, ["max_enqueued_batches { value: 100000000 }"]),
        ({"SAGEMAKER_TFS_INTER_OP_PARALLELISM": "5"}, ["--tensorflow_inter_op_parallelism=5"]),
        ({"SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "5"}, ["--tensorflow_intra_op_parallelism=5"]),
        ({"SAGEMAKER_TFS_INSTANCE_COUNT": "2"}, ["--per_process_gpu_memory_fraction=0.4000"]),
        (
            {"SAGEMAKER_TFS_INSTANCE_COUNT": "2", "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": "0"},
            ["--per_process_gpu_memory_fraction=0.5000"],
        ),
    ],
)
def test_what_a_variable_of_aws_gives_the_model_server(environ: dict[str, str], sentence: list[str]) -> None:
    settings = load_settings(environ)
    flags = model_server_flags(settings, ADDRESS, Path("/run"), 16)
    text = "\n".join([*flags, batching_parameters(settings)])
    assert [part for part in sentence if part not in text] == []


def test_without_its_variable_the_model_server_gets_no_flag() -> None:
    flags = model_server_flags(load_settings({}), ADDRESS, Path("/run"), 16)
    assert not [flag for flag in flags if any(part in flag for part in ("batching", "parallelism", "gpu"))]


@each(
    ("environ", "sentence"),
    [
        ({}, "--log-level=info"),
        ({"SAGEMAKER_GUNICORN_LOGLEVEL": "warning"}, "--log-level=warning"),
        ({"SAGEMAKER_GUNICORN_WORKERS": "3"}, "--workers=3"),
    ],
)
def test_what_a_variable_of_aws_gives_gunicorn(environ: dict[str, str], sentence: str) -> None:
    with RunDir() as run_dir:
        assert sentence in gunicorn_command(load_settings(environ), run_dir.path / "plan.json", "unix:a", run_dir)


@each(
    ("environ", "threads", "said"),
    [
        ({"SAGEMAKER_GUNICORN_WORKER_CLASS": "gevent"}, 8, "each request has its own thread"),
        ({"SAGEMAKER_GUNICORN_WORKER_CLASS": "eventlet"}, 8, "set SAGEMAKER_GUNICORN_THREADS=1"),
        ({"SAGEMAKER_GUNICORN_WORKER_CLASS": "Sync"}, 1, "one request at a time, so handlers need not be thread-safe"),
        ({"SAGEMAKER_GUNICORN_WORKER_CLASS": "tornado"}, 1, "one request at a time"),
        (
            {"SAGEMAKER_GUNICORN_WORKER_CLASS": "sync", "SAGEMAKER_GUNICORN_THREADS": "4"},
            4,
            "set SAGEMAKER_GUNICORN_THREADS=1",
        ),
        ({"SAGEMAKER_GUNICORN_WORKER_CLASS": "gthread"}, 8, None),
        ({}, 8, None),
    ],
)
def test_threads_take_the_place_of_any_worker_class(environ: dict[str, str], threads: int, said: str | None) -> None:
    settings = load_settings(environ)
    assert settings.threads == threads
    line = worker_class_line(settings)
    assert (line is None) == (said is None)
    if line is not None and said is not None:
        assert line.startswith(f"SAGEMAKER_GUNICORN_WORKER_CLASS={settings.worker_class}: ")
        assert said in line


def test_options_of_all_models_reach_the_engines(tmp_path: Path) -> None:
    options = load_settings({"LIGHTBOX_OPTIONS": '{"precision": "int8", "top_k": 3}'})
    assert '--engine_options={"precision": "int8"}' in engine_flags(options, tmp_path, tmp_path / "kept")
    flags = engine_flags(load_settings({}), tmp_path, tmp_path / "kept")
    assert {f"--engine_cache_dir={tmp_path / 'kept'}", "--num_load_threads=2"} <= set(flags)
    assert not any(flag.startswith("--engine_options") for flag in flags)


def test_options_of_engines_ask_for_the_embedded_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "tensorflow_model_server"
    binary.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert model_server_program(load_settings({})) == ("tensorflow_model_server", [str(binary)])
    options = {"LIGHTBOX_OPTIONS": '{"engine": "openvino"}'}
    assert model_server_program(load_settings(options))[0] == "embedded"
    settings = load_settings(options | {"LIGHTBOX_MODEL_SERVER": "tensorflow_model_server"})
    with pytest.raises(StartError, match="LIGHTBOX_OPTIONS: engine: expected none with"):
        model_server_program(settings)
