"""Lightbox's own environment variables, declared once, and checked at start; those of features are with them.

Names that AWS's TensorFlow Serving container knows (``SAGEMAKER_*``) keep their meaning; what is
ours is called ``LIGHTBOX_*``. ``docs/settings.md`` is generated from this file and the features'.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, PrivateAttr, ValidationInfo, field_validator

from lightbox.base.machine.memory import default_request_memory_mb
from lightbox.base.settings_types import (
    NO_LIMIT,
    ONE_AT_A_TIME,
    PART,
    EngineName,
    Option,
    TransportName,
    in_lower_case,
    parse_default_model,
    parse_folder,
    parse_folders,
    parse_models,
    parse_port_range,
    parse_transports,
    setting,
)
from lightbox.model_runtime.cores import available_cores

P = TypeVar("P", bound=BaseModel)

BATCH_TIMEOUT = 600.0
"""Seconds that SageMaker's batch transform waits for a response, unless the job says otherwise."""

HANDLER_SECONDS = 60.0
"""Seconds that AWS's container lets a handler take; SageMaker waits as long for a response of an endpoint."""

CALL_SECONDS = 60
"""Seconds that AWS's container allows for a call of the model server, and passes to handlers."""

LOAD_SECONDS = 60.0
"""Seconds that SageMaker waits for a model to be loaded; a request of callers may be allowed less."""


MOST_WORKERS, WORKER_MB = 64, 128
"""Most workers, and the least memory of a worker's requests by default: a photo of 12 megapixels is decoded in less."""


def default_workers(request_memory_mb: int) -> int:
    """Return how many workers share this memory: one for each core, as far as it suffices, at least 1."""
    return max(1, min(available_cores(), MOST_WORKERS, request_memory_mb // WORKER_MB))


class Settings(BaseModel):
    """The effective settings. A validator sees the fields above its own."""

    model_config = PART

    model_dir: Annotated[Path, BeforeValidator(parse_folder)] = setting(
        "Models", "LIGHTBOX_MODEL_DIR", "AIP_STORAGE_URI", default=Path("/opt/ml/model")
    )
    """Folder of the models: `<N>/`, `<name>/<N>/`, `export/Servo/<N>/`, one model, or [MLflow's](production.md#mlflow).
    It can also be a `.tar.gz` archive of these, a model file, or a `file://` URL. In multi-model mode the default is
    `/opt/ml/models`."""

    models: Annotated[dict[str, Path], BeforeValidator(parse_models)] = setting(
        "Models",
        "LIGHTBOX_MODELS",
        default=dict,
        default_text="unset",
        values_text="`NAME=PATH`, separated by commas",
        option=Option("model", repeated="NAME=PATH"),
    )
    """Models by name, each a folder, a model file or a `.tar.gz` archive. Of `LIGHTBOX_MODEL_DIR` only `code/` is used
    then."""

    default_model: Annotated[str | None, BeforeValidator(parse_default_model)] = setting(
        "Models", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME", default_text="the first by name"
    )
    """Model for requests that name none."""

    linked_folders: Annotated[tuple[Path, ...], BeforeValidator(parse_folders)] = setting(
        "Models",
        "LIGHTBOX_LINKED_FOLDERS",
        default=(),
        default_text="unset",
        values_text="absolute paths, separated by commas",
        option=Option("linked-folder", repeated="FOLDER"),
    )
    """Folders outside of a model's own to which [links in it](production.md#models-from-others) may lead, such as DVC's
    cache. Those of Hugging Face's cache are followed without it."""

    model_code: bool = setting("Models", "LIGHTBOX_MODEL_CODE", default=True)
    """Whether models may have code. With `false` a model whose `code/` holds `inference.py`, `requirements.txt` or
    `lib/` is refused; code of `LIGHTBOX_CODE_DIR` and of the S3 bucket stays."""

    model_server: Annotated[Literal["auto", "tensorflow_model_server", "embedded"], BeforeValidator(in_lower_case)] = (
        setting("Model servers", "LIGHTBOX_MODEL_SERVER", default="auto")
    )
    """Model server to start. `auto` uses TensorFlow Serving's binary if it is on PATH, else the embedded model
    server."""

    engine: Annotated[EngineName | None, BeforeValidator(in_lower_case)] = setting(
        "Model servers", "LIGHTBOX_ENGINE", default_text="`auto`", values_text="an [engine](engines.md) or `auto`"
    )
    """Engine of the embedded model server. `auto` selects the fastest of the installed engines whose results are right.
    If set, the embedded model server is used. A model's option `engine` overrides it."""

    transports: Annotated[tuple[TransportName, ...] | None, BeforeValidator(parse_transports)] = setting(
        "Model servers",
        "LIGHTBOX_TRANSPORT",
        "PREDICT_USING_GRPC",
        default_text="`local,grpc,rest` with the embedded model server, else `grpc`",
        values_text="`inside`, `local`, `grpc`, `rest`, or several: `grpc,rest`",
        option=Option("transport"),
    )
    """Transports to the model server, the default first. A request selects another with the attribute
    `tfs-transport=rest`. `local` is a unix socket. With `inside`, gunicorn's workers run OpenVINO and ONNX Runtime
    themselves, which takes the [least CPU time](what-it-costs.md#what-lightbox-adds) and gives up four things: each
    worker holds the weights, a model that crashes ends the requests of its worker, there is no batching, and the model
    server's metrics count none of these calls. Calls over gRPC go to the model server. Naming `rest` opens a TCP port,
    with tensorflow_model_server on all interfaces. `PREDICT_USING_GRPC=true` means `grpc`, `false` means `rest`."""

    safe_port_range: Annotated[tuple[int, int] | None, BeforeValidator(parse_port_range)] = setting(
        "Model servers", "SAGEMAKER_SAFE_PORT_RANGE", values_text="`low-high`, two ports per model server"
    )
    """Ports of the model servers, [where they are open](adr/062-no-unneeded-ports.md). Server i uses low+2i for gRPC
    and low+2i+1 for REST. If unset, 9000 and 8501."""

    instance_count: int = setting("Model servers", "SAGEMAKER_TFS_INSTANCE_COUNT", default=1, ge=1, le=64)
    """Number of model servers. Requests avoid one that is down."""

    inter_op_parallelism: int = setting("Model servers", "SAGEMAKER_TFS_INTER_OP_PARALLELISM", default=0, ge=0)
    """Number of operations that the model server runs in parallel. With 0 TensorFlow decides."""

    intra_op_parallelism: int = setting("Model servers", "SAGEMAKER_TFS_INTRA_OP_PARALLELISM", default=0, ge=0)
    """Number of threads for one operation. If unset, one on two cores for models below 32 MiB, else one per core.
    With 0 TensorFlow decides."""

    gpu_memory_margin: float = setting(
        "Model servers", "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", default=0.2, ge=0, lt=1
    )
    """Share of GPU memory that several model servers leave free."""

    port: int = setting("Port", "SAGEMAKER_BIND_TO_PORT", "AIP_HTTP_PORT", "PORT", default=8080, ge=1, le=65535)
    """Port on which nginx listens. `PORT` is read only if `K_SERVICE` is set, as on Cloud Run."""

    nginx: bool = setting("Port", "LIGHTBOX_NGINX", default=True)
    """Serve through nginx. `false` is for a first try: gunicorn listens on loopback, without TLS, `/metrics` and
    protection from slow clients. The log names the features that are missing too."""

    host: str | None = setting(
        "Port", "LIGHTBOX_HOST", default_text="all interfaces; loopback without nginx", values_text="an IP address"
    )
    """Address of this machine on which all ports for callers listen: `127.0.0.1` for its own users alone. The names by
    which callers may call it are `LIGHTBOX_HOSTS`."""

    tls_cert: Path | None = setting("TLS", "LIGHTBOX_TLS_CERT")
    """Certificate with its chain, in PEM, or a folder with `tls.crt`. All ports then speak [TLS](tls.md) only."""

    tls_key: Path | None = setting("TLS", "LIGHTBOX_TLS_KEY", default_text="beside the certificate, or in its file")
    """Key of the certificate, in PEM without a passphrase, or a folder with `tls.key`."""

    tls_client_ca: Path | None = setting("TLS", "LIGHTBOX_TLS_CLIENT_CA")
    """Authorities of accepted client certificates, in PEM, or a folder with `ca.crt`. Requests without such a
    certificate are refused, [except for health checks](tls.md#mutual-tls)."""

    request_memory_mb: int = setting(
        "Limits",
        "LIGHTBOX_REQUEST_MEMORY_MB",
        default=default_request_memory_mb,
        ge=16,
        default_text="a quarter of the container's memory",
        unit="MiB",
    )
    """Maximum [memory of all requests](limits.md), divided equally among the workers. As
    much again is for images in decoding, shared by all workers. It also limits the [bodies that nginx
    holds](security.md#what-holds), by default a quarter of the free memory."""

    workers: int = setting(
        "Workers and queue",
        "SAGEMAKER_GUNICORN_WORKERS",
        default=lambda given: default_workers(given["request_memory_mb"]),
        ge=1,
        le=MOST_WORKERS,
        default_text="the number of cores, at most 64 and one for each 128 MiB of `LIGHTBOX_REQUEST_MEMORY_MB`",
    )
    """Number of gunicorn worker processes."""

    worker_class: Annotated[
        Literal["gthread", "gevent", "eventlet", "sync", "tornado"], BeforeValidator(in_lower_case)
    ] = setting("Workers and queue", "SAGEMAKER_GUNICORN_WORKER_CLASS", default="gthread")
    """Worker class of gunicorn, for compatibility with AWS's container. Workers always use threads."""

    threads: int = setting(
        "Workers and queue",
        "SAGEMAKER_GUNICORN_THREADS",
        default=lambda given: 1 if given.get("worker_class") in ONE_AT_A_TIME else 8,
        ge=1,
        le=256,
        default_text="8; 1 with `sync` and `tornado`",
    )
    """Number of requests that a worker handles concurrently."""

    max_waiting: int = setting("Workers and queue", "LIGHTBOX_MAX_WAITING", default=32, ge=0, le=1024)
    """Number of requests per worker that may wait for a thread. Others get 503 with Retry-After."""

    batch: bool = setting("Time", "SAGEMAKER_BATCH", default=False)
    """Batch transform mode, set by SageMaker. Requests get more time, and the queue of the model server has no
    limit."""

    request_timeout: float = setting(
        "Time",
        "LIGHTBOX_REQUEST_TIMEOUT_SECONDS",
        "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS",
        default=lambda given: BATCH_TIMEOUT if given.get("batch") else 30.0,
        gt=0,
        le=3600,
        default_text="30; 60 with an `inference.py`; 600 in batch transform",
        unit="s",
    )
    """Timeout of a request. It then gets 504. Loading or unloading a model may take at least 60 s."""

    proxy_read_timeout: float | None = setting(
        "Time",
        "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS",
        gt=0,
        le=7200,
        default_text="10 more than the request timeout",
        unit="s",
    )
    """Time that nginx waits for a response. [Set alone](handlers.md#timeouts), it limits requests too."""

    wait_seconds: float | None = setting("Time", "SAGEMAKER_TFS_WAIT_TIME_SECONDS", gt=0, le=86400, unit="s")
    """Time limit for the models to become ready at start. It also limits loads in multi-model mode and the model call
    of a handler pair, and is `context.timeout` (60 if unset)."""

    drain_seconds: float = setting("Time", "LIGHTBOX_DRAIN_SECONDS", default=30.0, ge=0, le=3600, unit="s")
    """Time that accepted requests have to finish after SIGTERM."""

    hang_seconds: float = setting("Time", "LIGHTBOX_HANG_SECONDS", default=20.0, ge=1, le=86400, unit="s")
    """Time after which a process that neither answers nor works is [killed and started
    again](reliability.md#processes-that-hang). One that starts also has the time of a load."""

    max_body_mb: int = setting("Limits", "LIGHTBOX_MAX_BODY_MB", default=100, ge=1, le=2048, unit="MiB")
    """Maximum size of a request body or gRPC message, also decompressed. Larger ones get 413 or RESOURCE_EXHAUSTED."""

    max_image_pixels: int = setting("Limits", "LIGHTBOX_MAX_IMAGE_PIXELS", default=50_000_000, ge=1, unit="pixels")
    """Maximum width times height of an image. Larger ones get 413. All images of a request may have ten times as many
    pixels."""

    enable_batching: bool = setting(
        "Batching in the model server", "SAGEMAKER_TFS_ENABLE_BATCHING", default=False, option=Option("batching")
    )
    """Let the model server combine concurrent requests into batches."""

    max_batch_size: int = setting("Batching in the model server", "SAGEMAKER_TFS_MAX_BATCH_SIZE", default=8, ge=1)
    """Maximum number of instances in a batch."""

    batch_timeout_micros: int = setting(
        "Batching in the model server", "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", default=1000, ge=0, unit="µs"
    )
    """Time that a batch waits for more requests."""

    num_batch_threads: int = setting(
        "Batching in the model server",
        "SAGEMAKER_TFS_NUM_BATCH_THREADS",
        default=available_cores,
        ge=1,
        default_text="the number of cores",
    )
    """Number of batches that run concurrently."""

    max_enqueued_batches: int = setting(
        "Batching in the model server",
        "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
        default=lambda given: NO_LIMIT if given.get("batch") else available_cores(),
        ge=1,
        default_text="the number of cores; 100000000 in batch transform",
    )
    """Number of batches that may wait for a thread. Others are refused."""

    code_dir: Path = setting("Code for all models", "LIGHTBOX_CODE_DIR", default=Path("/opt/ml/code"))
    """In multi-model mode: folder with `inference.py`, `lib/` and `requirements.txt` for models without their own. It
    precedes `code/` in the model directory."""

    universal_bucket: str | None = setting("Code for all models", "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET")
    """S3 bucket with an `inference.py` for all models of multi-model mode. It is downloaded at start if the prefix is
    set and neither `LIGHTBOX_CODE_DIR` nor `code/` exists."""

    universal_prefix: str | None = setting("Code for all models", "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX")
    """Prefix of the keys in that bucket, such as a folder."""

    log_format: Annotated[Literal["text", "json"], BeforeValidator(in_lower_case)] = setting(
        "Logs and metrics", "LIGHTBOX_LOG_FORMAT", default="text"
    )
    """Format of the log lines."""

    gunicorn_loglevel: Annotated[
        Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(in_lower_case)
    ] = setting("Logs and metrics", "SAGEMAKER_GUNICORN_LOGLEVEL", default="info", option=Option("log-level"))
    """Log level of Lightbox and of handlers. `debug` adds the start of gunicorn and the model server."""

    nginx_loglevel: Annotated[
        Literal["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"], BeforeValidator(in_lower_case)
    ] = setting("Logs and metrics", "SAGEMAKER_TFS_NGINX_LOGLEVEL", default="error")
    """Log level of nginx."""

    handler_log_kb: int = setting(
        "Logs and metrics", "LIGHTBOX_HANDLER_LOG_KB", default=256, ge=16, le=1 << 20, unit="kB/s"
    )
    """How much [handlers may log](observability.md#log-lines): prints, records and tracebacks. Four seconds of it may
    come at once. Further lines are dropped and counted."""

    handler_errors: Annotated[Literal["callers", "log"], BeforeValidator(in_lower_case)] = setting(
        "Logs and metrics", "LIGHTBOX_HANDLER_ERRORS", default="callers"
    )
    """Who gets the text of a handler's exception: also `callers`, shortened, or only the `log`. Callers always get the
    exception's class."""

    metrics: bool = setting("Logs and metrics", "LIGHTBOX_METRICS", default=True)
    """Serve `/metrics` for Prometheus."""

    _parts: dict[type[BaseModel], BaseModel] = PrivateAttr(default_factory=dict)
    _has_fixed_models: bool = PrivateAttr(True)
    _given: frozenset[str] = PrivateAttr(frozenset())

    def of(self, part: type[P]) -> P:
        """Return the settings of a feature."""
        found = self._parts.get(part)
        return found if isinstance(found, part) else part()

    @property
    def has_fixed_models(self) -> bool:
        """Whether the models that a start finds are those that are served, and no feature loads others."""
        return self._has_fixed_models

    def add(self, part: BaseModel) -> None:
        """Take the settings of a feature, as the environment gives them."""
        self._parts[type(part)] = part

    def expect_other_models(self) -> None:
        """Note that a feature loads models, in place of those that a start finds."""
        self._has_fixed_models = False

    def note_given(self, variables: Iterable[str]) -> None:
        """Note the variables that these settings are read from."""
        self._given = frozenset(variables)

    def variable(self, field: str) -> str:
        """Return the variable that sets a field of Lightbox's own, or the first one that could."""
        names = variable_names(field)
        return next((name for name in names if name in self._given), names[0])

    @field_validator("host")
    @classmethod
    def _is_an_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        try:
            address = ip_address(value)
        except ValueError:
            raise ValueError("expected an IP address of this machine, such as 127.0.0.1") from None
        if not (info.data.get("nginx", True) or address.is_loopback):
            raise ValueError("expected 127.0.0.1 without nginx, which protects the port")
        return str(address)

    @field_validator("instance_count")
    @classmethod
    def _range_has_room(cls, value: int, info: ValidationInfo) -> int:
        low, high = info.data.get("safe_port_range") or (1, 65535)
        if high - low + 1 < 2 * value:
            raise ValueError(f"model servers need two ports each, and SAGEMAKER_SAFE_PORT_RANGE={low}-{high} has fewer")
        return value

    @field_validator("engine")
    @classmethod
    def _has_its_server(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("model_server") == "tensorflow_model_server":
            raise ValueError("expected no engine with LIGHTBOX_MODEL_SERVER=tensorflow_model_server, which has its own")
        return value

    @field_validator("model_dir", "code_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.absolute()

    @property
    def deadline_seconds(self) -> float:
        """Seconds from a request's arrival until it is answered with 504, where the built-in handling answers."""
        return min(self.request_timeout, self.handler_seconds)

    @property
    def handler_seconds(self) -> float:
        """The same where an inference.py answers. The timeouts of gunicorn, nginx and the model server follow it."""
        # As in AWS's container, the longer one counts where both are set.
        if "request_timeout" in self.model_fields_set:
            return self.request_timeout
        if self.proxy_read_timeout is None:
            return max(HANDLER_SECONDS, self.request_timeout)
        return max(self.proxy_read_timeout - 1, self.proxy_read_timeout / 2)

    @property
    def call_seconds(self) -> int:
        """Seconds that handlers of AWS's API should give a call of the model server."""
        return max(1, int(self.wait_seconds or CALL_SECONDS))

    @property
    def load_seconds(self) -> float:
        """Seconds that loading or unloading a model may take in multi-model mode."""
        return self.wait_seconds or max(LOAD_SECONDS, self.deadline_seconds)

    @property
    def nginx_load_read_timeout(self) -> int:
        """Seconds after which nginx gives up on a model that is loaded or unloaded."""
        return max(self.nginx_read_timeout, int(self.load_seconds + 10))

    @property
    def last_seconds(self) -> float:
        """Seconds at the end of ``drain_seconds`` in which who has not finished is stopped all the same."""
        return min(1.5, 0.3 * self.drain_seconds)

    @property
    def nginx_read_timeout(self) -> int:
        """Seconds after which nginx gives up on gunicorn."""
        given = int(self.proxy_read_timeout or 0)
        return given if given > self.handler_seconds else int(self.handler_seconds + 10)

    @property
    def slots(self) -> int:
        """Requests that may be in progress in all workers together."""
        return self.workers * self.threads

    @property
    def threads_are_given(self) -> bool:
        """Whether the number of threads is chosen, which then bounds how often user code runs at once."""
        return "threads" in self.model_fields_set or self.worker_class in ONE_AT_A_TIME

    @property
    def most_requests(self) -> int:
        """Requests of one model that may be in progress or wait in all workers together."""
        return self.workers * (self.threads + self.max_waiting)


def variable_names(field: str, part: type[BaseModel] = Settings) -> list[str]:
    """Return the environment variables of a field, the one that counts most first."""
    alias = part.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias)]
