"""Converts flags and their files to the options of each part; finds every error before loading."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import CHOICES, Opener, checked_options
from lightbox.model_runtime.server import model_config
from lightbox.model_runtime.server.batching import batching_options
from lightbox.model_runtime.server.batching.batching_options import BatchingOptions
from lightbox.model_runtime.server.flags import FLAGS, Options
from lightbox.model_runtime.server.grpc.protos import MonitoringConfig
from lightbox.model_runtime.server.manager import LoadPolicy
from lightbox.model_runtime.wire.messages import config_pb2, platform_config_pb2
from lightbox.model_runtime.wire.status import invalid

log = logging.getLogger("model_server")

METRICS_PATH = "/monitoring/prometheus/metrics"


def check(options: Options) -> None:
    """Raise INVALID_ARGUMENT for contradictory flags; log those without effect."""
    if not options.model_base_path and not options.model_config_file:
        raise invalid("Both server_options.model_base_path and server_options.model_config_file are empty!")
    if not options.port and not options.grpc_socket_path:
        text = "At least one of server_options.grpc_port or server_options.grpc_socket_path must be set."
        raise invalid(text)
    for name in ("batching_parameters_file", "enable_per_model_batching_parameters"):
        if options.values[name] and not options.enable_batching:
            text = f"server_options.{name} is set without setting server_options.enable_batching to true."
            raise invalid(text)
    if options.engine not in CHOICES:
        raise invalid(f"--engine: expected {', '.join(CHOICES)}, got {options.engine!r}")
    engine_options(options)
    if options.platform_config_file:
        platforms: Any = platform_config_pb2.PlatformConfigMap()
        model_config.read_text_proto(options.platform_config_file, platforms)
    unused = [flag.name for flag in FLAGS if flag.name in options.present and not flag.works]
    if unused:
        log.info("flags without effect in this server: %s", ", ".join(f"--{name}" for name in unused))


def models(options: Options) -> model_config.ModelServerConfig:
    """Return the first configuration of models."""
    if options.model_config_file:
        return model_config.read_config(options.model_config_file)
    return model_config.single_model(options.model_name, options.model_base_path)


def load_policy(options: Options) -> LoadPolicy:
    """Return the policy for repeated loads."""
    return LoadPolicy(
        options.num_load_threads,
        options.num_unload_threads,
        options.max_num_load_retries,
        options.load_retry_interval_micros / 1e6,
    )


def session_config(options: Options) -> bytes:
    """Return the serialized ConfigProto of every session."""
    config = config_pb2.ConfigProto()
    if options.tensorflow_session_config_file:
        model_config.read_text_proto(options.tensorflow_session_config_file, config)
    both = options.tensorflow_session_parallelism
    return with_threads(
        config, options.tensorflow_intra_op_parallelism or both, options.tensorflow_inter_op_parallelism or both
    )


def with_threads(config: config_pb2.ConfigProto, intra: int, inter: int = 0) -> bytes:
    """Return ConfigProto serialized, with these threads inside one op and for ops; 0 is automatic."""
    if intra:
        config.intra_op_parallelism_threads = intra
    elif not config.intra_op_parallelism_threads and available_cores() < len(os.sched_getaffinity(0)):
        config.intra_op_parallelism_threads = available_cores()  # TensorFlow does not see the cgroup's quota
    if inter:
        config.inter_op_parallelism_threads = inter
    return bytes(config.SerializeToString())


def engine_options(options: Options) -> dict[str, str]:
    """Return the engine options for all models; raise INVALID_ARGUMENT."""
    try:
        return checked_options(json.loads(options.engine_options), "--engine_options")
    except ValueError as error:
        raise invalid(f"--engine_options: expected a JSON object: {error}") from None


def engine(options: Options, tags: tuple[str, ...]) -> Opener:
    """Return the opener of models; with one intra-op thread, as many calls run at once as there are cores."""
    for_one_call = options.tensorflow_intra_op_parallelism or options.tensorflow_session_parallelism or 1
    hardware = Hardware.shared(available_cores(), for_one_call, options.engine_cache_dir)
    guard, chosen = options.rank_guard, engine_options(options)
    return Opener(options.engine, tags, session_config(options), hardware, guard, chosen)


def batching(options: Options) -> tuple[BatchingOptions, Callable[[str], BatchingOptions | None]] | None:
    """Return the options of the thread pool and, for a SavedModel's folder, of its queues; None without batching."""
    if not options.enable_batching or options.platform_config_file:
        return None
    common = batching_options.read_options(options.batching_parameters_file)
    if options.enable_per_model_batching_parameters:
        return common, batching_options.model_options
    return common, lambda folder: common


def metrics_path(options: Options) -> str | None:
    """Return the path of the Prometheus page, None if there is to be none."""
    if not options.monitoring_config_file:
        return None
    config = model_config.read_text_proto(options.monitoring_config_file, MonitoringConfig())
    prometheus = config.prometheus_config
    return (prometheus.path or METRICS_PATH) if prometheus.enable else None
