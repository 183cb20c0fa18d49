"""The command line of tensorflow_model_server: every flag, parsed by its rules."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightbox.model_runtime.engines import DEFAULT, ENGINES

CPUS = os.cpu_count() or 1


@dataclass(frozen=True)
class Flag:
    """One flag; ``kind`` is int32, int64, bool, float or string; ``works`` is false for a flag without effect."""

    name: str
    kind: str
    default: Any
    text: str
    works: bool = True

    def shown(self) -> str:
        """Return the flag with its default as in ``--help``."""
        value = {
            "bool": lambda: str(self.default).lower(),
            "string": lambda: f'"{self.default}"',
            "float": lambda: f"{self.default:f}",
        }.get(self.kind, lambda: str(self.default))()
        return f"--{self.name}={value}"


FLAGS = [
    Flag("port", "int32", 8500, "TCP port for gRPC on the loopback interface; 0 turns it off."),
    Flag("grpc_socket_path", "string", "", "UNIX socket on which gRPC is served too, or only."),
    Flag("rest_api_port", "int32", 0, "TCP port for HTTP on the loopback interface; 0 means none."),
    Flag("rest_api_num_threads", "int32", 4 * CPUS, "Threads that answer HTTP calls."),
    Flag("rest_api_timeout_in_ms", "int32", 30000, "Time limit of an HTTP call; 504 when it is over."),
    Flag("rest_api_enable_cors_support", "bool", False, "Send CORS headers and answer preflight requests."),
    Flag("enable_batching", "bool", False, "Join concurrent requests into batches."),
    Flag(
        "allow_version_labels_for_unavailable_models",
        "bool",
        False,
        "Let new labels point at versions that are not loaded (yet).",
    ),
    Flag("batching_parameters_file", "string", "", "Text proto BatchingParameters; needs --enable_batching."),
    Flag(
        "enable_per_model_batching_parameters",
        "bool",
        False,
        "Read batching_params.pbtxt from each SavedModel; the global file then sets the thread pool only.",
    ),
    Flag(
        "model_config_file",
        "string",
        "",
        "Text proto ModelServerConfig, instead of --model_name and its path.",
    ),
    Flag(
        "model_config_file_poll_wait_seconds",
        "int32",
        0,
        "Read the configuration file this often; 0 means once.",
    ),
    Flag("model_name", "string", "default", "Name of the single model."),
    Flag("model_base_path", "string", "", "Absolute folder of the single model."),
    Flag("num_load_threads", "int32", 0, "Threads that load models; 0 means one."),
    Flag("num_unload_threads", "int32", 0, "Threads that unload models; 0 means one."),
    Flag("max_num_load_retries", "int32", 5, "Further attempts after a load that failed."),
    Flag("load_retry_interval_micros", "int64", 60000000, "Pause between attempts; negative means none."),
    Flag(
        "file_system_poll_wait_seconds",
        "int32",
        1,
        "How often base paths are listed; not above 0 means at the start and at each reload.",
    ),
    Flag("flush_filesystem_caches", "bool", True, "Drop file caches after loading.", works=False),
    Flag(
        "tensorflow_session_parallelism",
        "int64",
        0,
        "Threads of a session, for both kinds below; 0 is automatic.",
    ),
    Flag("tensorflow_session_config_file", "string", "", "Text proto ConfigProto for all sessions."),
    Flag("tensorflow_intra_op_parallelism", "int64", 0, "Threads inside one op; 0 is automatic."),
    Flag("tensorflow_inter_op_parallelism", "int64", 0, "Ops that run at the same time; 0 is automatic."),
    Flag("use_alts_credentials", "bool", False, "Google ALTS for gRPC.", works=False),
    Flag("ssl_config_file", "string", "", "Text proto SSLConfig; gRPC over TCP then needs TLS."),
    Flag("platform_config_file", "string", "", "Text proto PlatformConfigMap.", works=False),
    Flag("per_process_gpu_memory_fraction", "float", 0.0, "Share of GPU memory.", works=False),
    Flag("saved_model_tags", "string", "serve", "Comma-separated tags of the graph to load."),
    Flag("grpc_channel_arguments", "string", "", "Comma-separated name=value pairs for the gRPC server."),
    Flag("grpc_max_threads", "int32", 4 * CPUS, "Threads that answer gRPC calls."),
    Flag("enable_model_warmup", "bool", True, "Replay assets.extra/tf_serving_warmup_requests after loading."),
    Flag("num_request_iterations_for_warmup", "int32", 0, "Repeats of each warm-up request, if above 0."),
    Flag("version", "bool", False, "Print versions and exit."),
    Flag("monitoring_config_file", "string", "", "Text proto MonitoringConfig: path of the Prometheus metrics."),
    Flag("remove_unused_fields_from_bundle_metagraph", "bool", True, "Free parts of the graph.", works=False),
    Flag("prefer_tflite_model", "bool", False, "Use model.tflite when there is one.", works=False),
    Flag("num_tflite_pools", "int32", CPUS, "TFLite interpreter pools.", works=False),
    Flag("num_tflite_interpreters_per_pool", "int32", 1, "TFLite interpreters of a pool.", works=False),
    Flag(
        "enable_signature_method_name_check",
        "bool",
        False,
        "Check the method name of signatures in Classify etc.",
    ),
    Flag("xla_cpu_compilation_enabled", "bool", False, "XLA JIT on CPU.", works=False),
    Flag("xla_gpu_compilation_enabled", "bool", False, "XLA JIT on CPU and GPU.", works=False),
    Flag("enable_profiler", "bool", True, "Profiler service.", works=False),
    Flag("thread_pool_factory_config_file", "string", "", "Text proto ThreadPoolConfig.", works=False),
    Flag("mixed_precision", "string", "", "Mixed precision mode.", works=False),
    Flag("skip_initialize_tpu", "bool", False, "Do not set up a TPU.", works=False),
    Flag("enable_grpc_healthcheck_service", "bool", False, "Serve grpc.health.v1."),
    Flag(
        "enable_serialization_as_tensor_content",
        "bool",
        False,
        "Predict responses over gRPC use tensor_content.",
    ),
]
"""The flags of tensorflow_model_server."""

OWN_FLAGS = [
    Flag("engine", "string", DEFAULT, f"{', '.join(ENGINES)}, or auto: the one that suits a model best."),
    Flag("engine_options", "string", "{}", "JSON object with engine and precision, which override a model's own."),
    Flag("engine_cache_dir", "string", "", "Cache folder for facts about engines and models."),
    Flag("engine_report_dir", "string", "", "Folder for JSON reports on the engines of loaded versions."),
    Flag("load_seconds", "float", 0.0, "Time limit of a load of an ONNX, OpenVINO or LiteRT file; 0 means none."),
    Flag("local_socket_path", "string", "", "UNIX socket for the transport local: Predict without gRPC."),
    Flag("rest_socket_path", "string", "", "UNIX socket on which HTTP is served too, or only."),
    Flag("reload_over_tcp", "bool", True, "Take HandleReloadConfigRequest over TCP; false: over the socket."),
    Flag("rank_guard", "bool", True, "Refuse tensor ranks that would crash the process."),
    Flag("as_tensorflow_serving", "bool", False, "Load, wait, block, crash like tensorflow_model_server, for tests."),
    Flag("host", "string", "127.0.0.1", "Address of the TCP ports; 0.0.0.0 for all interfaces."),
]
"""Flags that tensorflow_model_server does not have."""

_ALL = [*FLAGS, *OWN_FLAGS]
_BY_NAME = {flag.name: flag for flag in _ALL}


class FlagError(ValueError):
    """A command line with which the server does not start."""


@dataclass
class Options:
    """The parsed command line: values by flag name, unknown arguments, and the names of given flags."""

    values: dict[str, Any] = field(default_factory=lambda: {flag.name: flag.default for flag in _ALL})
    unknown: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def usage(program: str) -> str:
    """Return the text of ``--help``."""
    lines = [f"\t{flag.shown():<33}\t{flag.kind}\t{flag.text}\n" for flag in _ALL]
    return f"usage: {program}\nFlags:\n" + "".join(lines)


def parse(arguments: Sequence[str]) -> Options:
    """Parse ``--name=value`` arguments (a bool may stand alone).

    Arguments that are not flags are in ``unknown`` and do not stop the server. Raises FlagError for an invalid value
    ("Couldn't interpret value ...") and, with an empty text, for ``--help``.
    """
    options = Options()
    for argument in arguments:
        if argument == "--help":
            raise FlagError("")
        name, equals, text = argument.removeprefix("--").partition("=")
        flag = _BY_NAME.get(name) if argument.startswith("--") else None
        if flag is None or (not equals and flag.kind != "bool"):
            options.unknown.append(argument)
            continue
        options.values[name] = _read(flag, text if equals else "true")
        options.present.add(name)
    return options


def _whole(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?[0-9]+", text):
            raise ValueError(text)
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError(text)
        return value

    return read


_READERS: dict[str, Callable[[str], Any]] = {
    "int32": _whole(32),
    "int64": _whole(64),
    "bool": lambda text: {"true": True, "false": False}[text],
    "float": float,
    "string": str,
}


def _read(flag: Flag, text: str) -> Any:
    try:
        return _READERS[flag.kind](text)
    except (ValueError, KeyError):
        raise FlagError(f"Couldn't interpret value {text} for flag {flag.name}.") from None
