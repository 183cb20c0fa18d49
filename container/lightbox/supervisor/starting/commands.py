"""The command lines of the children."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.base.machine.environment import variable
from lightbox.base.run_dir import RunDir
from lightbox.base.settings import Settings
from lightbox.model import engine_report
from lightbox.model.options import OptionSettings
from lightbox.model.plan import ModelServerAddress
from lightbox.model_runtime.engines import AUTO
from lightbox.supervisor.starting.model_server_config import BATCHING_PARAMETERS, MODEL_CONFIG

BINARY = "tensorflow_model_server"
PYTHON = (sys.executable, "-P", "-m")
"""Runs a module; without -P, files in the working directory would shadow modules."""
LOADS_AT_ONCE = 2
"""Parallel loads of a model server: a load is mostly single-threaded, and each takes memory."""
LOAD_SHARE = 0.75
"""Part of a load's time that the model server has, so that loads that wait for it are still answered."""
GRPC_THREADS_EACH = 4
"""gRPC threads of the model server for each request in progress."""


class ModelServerMissing(StartError):
    """The model server that the settings ask for is not installed; the message says what to do."""


def model_server_program(settings: Settings) -> tuple[str, list[str]]:
    """Return which model server runs, ``tensorflow_model_server`` or ``embedded``, and how it is started."""
    binary, options = _real_binary(), settings.of(OptionSettings).of_engine()
    if settings.model_server == BINARY and options:
        problem = f"expected none with LIGHTBOX_MODEL_SERVER={BINARY}, which has its own"
        raise StartError(f"LIGHTBOX_OPTIONS: {' and '.join(options)}: {problem}")
    if settings.model_server != "embedded" and settings.engine is None and not options and binary:
        return BINARY, [binary]
    if settings.model_server == BINARY:
        raise ModelServerMissing(f"LIGHTBOX_MODEL_SERVER: {BINARY} is not on PATH; install it, or use auto or embedded")
    return "embedded", [*PYTHON, "lightbox.model_runtime.server"]


def model_server_flags(settings: Settings, address: ModelServerAddress, run_dir: Path, in_progress: int) -> list[str]:
    """Return the flags of tensorflow_model_server for this many calls at once; the embedded server takes them too."""
    flags = [
        f"--port={address.grpc_port or 0}",
        f"--model_config_file={run_dir / MODEL_CONFIG}",
        # A model that cannot be loaded is reported now, and not after five attempts a minute apart. The model server
        # sees only complete versions.
        "--max_num_load_retries=0",
        # More calls than threads get RESOURCE_EXHAUSTED. Threads are created on demand, so allow enough for all
        # requests of the workers, and for calls that outlive a request answered with 504.
        f"--grpc_max_threads={GRPC_THREADS_EACH * in_progress + 8}",
        f"--rest_api_num_threads={max(in_progress + 8, 16)}",
        f"--rest_api_timeout_in_ms={int(settings.handler_seconds * 1000) + 1000}",
        f"--grpc_socket_path={address.grpc_socket}",
    ]
    if address.rest_port:
        flags.append(f"--rest_api_port={address.rest_port}")
    if address.rest_socket:
        flags.append(f"--rest_socket_path={address.rest_socket}")
    if address.local_socket:
        flags.append(f"--local_socket_path={address.local_socket}")
    if settings.enable_batching:
        flags += ["--enable_batching=true", f"--batching_parameters_file={run_dir / BATCHING_PARAMETERS}"]
    if settings.instance_count > 1:
        share = (1 - settings.gpu_memory_margin) / settings.instance_count
        flags.append(f"--per_process_gpu_memory_fraction={share:.4f}")
    if settings.inter_op_parallelism:
        flags.append(f"--tensorflow_inter_op_parallelism={settings.inter_op_parallelism}")
    if settings.intra_op_parallelism:
        flags.append(f"--tensorflow_intra_op_parallelism={settings.intra_op_parallelism}")
    return flags


def engine_flags(settings: Settings, run_dir: Path, cache: Path) -> list[str]:
    """Return the flags of the embedded server only. ``cache`` is the folder of its cached facts of models."""
    chosen = settings.of(OptionSettings).of_engine()
    most = 0 if settings.has_fixed_models else LOAD_SHARE * settings.load_seconds
    return [
        f"--engine={settings.engine or AUTO}",
        *([f"--engine_options={json.dumps(chosen)}"] if chosen else []),
        f"--engine_cache_dir={cache}",
        f"--num_load_threads={LOADS_AT_ONCE}",
        f"--load_seconds={most:g}",
        f"--engine_report_dir={run_dir / engine_report.FOLDER}",
        "--reload_over_tcp=false",
    ]


def _real_binary() -> str | None:
    folders = variable("PATH", os.defpath).split(os.pathsep)
    return shutil.which(BINARY, path=os.pathsep.join(filter(None, folders)))  # an empty one is the working directory


def gunicorn_command(
    settings: Settings, plan_file: Path, bind: str, run_dir: RunDir, most_requests: int = 0
) -> list[str]:
    """Return gunicorn's command: threads, no preload (gunicorn_hooks shares modules), timeouts below nginx's.

    ``most_requests`` is the limit of all workers, if not that of one model.
    """
    most_requests = most_requests or settings.most_requests
    return [
        *PYTHON,
        "gunicorn",
        "--config=python:lightbox.serving.gunicorn_hooks",
        "--bind",
        bind,
        "--worker-class",
        "lightbox.core.gunicorn_worker.LingeringWorker",
        f"--workers={settings.workers}",
        f"--threads={-(-most_requests // settings.workers)}",
        # A worker that gives no sign of life for longer than a handler may take is replaced.
        f"--timeout={int(settings.handler_seconds) + 5}",
        f"--graceful-timeout={max(1, int(settings.drain_seconds))}",
        "--keep-alive=75",
        # nginx has applied these limits already, with JSON errors instead of gunicorn's HTML.
        "--limit-request-line=0",
        "--limit-request-fields=32768",
        "--limit-request-field_size=65536",
        f"--log-level={settings.gunicorn_loglevel}",
        f"--worker-tmp-dir={run_dir.path}",
        "--no-control-socket",
        f"lightbox.serving.worker:wsgi_app({str(plan_file)!r})",
    ]


def worker_class_line(settings: Settings) -> str | None:
    """Return a log line if the configured worker class is not the one that runs."""
    if settings.worker_class == "gthread":
        return None
    line = f"SAGEMAKER_GUNICORN_WORKER_CLASS={settings.worker_class}: workers with threads take its place; "
    if settings.threads == 1:
        return f"{line}each runs one request at a time, so handlers need not be thread-safe"
    return (
        f"{line}handlers run unchanged, because each request has its own thread and blocks no other; "
        "for a handler that is not thread-safe set SAGEMAKER_GUNICORN_THREADS=1"
    )
