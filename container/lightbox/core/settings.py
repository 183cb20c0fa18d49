"""Lightbox's own environment variables, declared once, and checked at start; those of features are with them.

Names that AWS's TensorFlow Serving container knows (``SAGEMAKER_*``) keep their meaning; what is
ours is called ``LIGHTBOX_*``. ``docs/settings.md`` is generated from this file and the features'.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, PrivateAttr, ValidationInfo, field_validator

from lightbox.core.settings_types import (
    NO_LIMIT,
    ONE_AT_A_TIME,
    PART,
    EngineName,
    Option,
    TransportName,
    in_lower_case,
    parse_default_model,
    parse_folder,
    parse_models,
    parse_port_range,
    parse_transports,
    setting,
)
from lightbox.machine.cores import available_cores
from lightbox.machine.memory import default_request_memory_mb

P = TypeVar("P", bound=BaseModel)

BATCH_TIMEOUT = 600.0
"""Seconds that SageMaker's batch transform waits for an answer, unless the job says otherwise."""

HANDLER_SECONDS = 60.0
"""Seconds that AWS's container lets a handler take; SageMaker waits as long for an answer of an endpoint."""

CALL_SECONDS = 60
"""Seconds that AWS's container gives a call of the model server, and tells handlers."""

LOAD_SECONDS = 60.0
"""Seconds that SageMaker waits for a model to be loaded; a request of callers may be allowed less."""


class Settings(BaseModel):
    """The effective settings. A validator sees the fields above its own."""

    model_config = PART

    model_dir: Annotated[Path, BeforeValidator(parse_folder)] = setting(
        "Models", "LIGHTBOX_MODEL_DIR", "AIP_STORAGE_URI", default=Path("/opt/ml/model")
    )
    """Folder of the models. It holds `<N>/`, `<name>/<N>/`, `export/Servo/<N>/` or one model, which can be a
    folder that [MLflow](production.md#mlflow) saved. It can be such a folder in a `.tar.gz`, a model's file, such as
    `yolo11n.onnx`, and a `file://` address. In multi-model mode the default is `/opt/ml/models`. A bucket's address, as
    Vertex AI gives it, is refused ([production](production.md#vertex-ai))."""

    models: Annotated[dict[str, Path], BeforeValidator(parse_models)] = setting(
        "Models",
        "LIGHTBOX_MODELS",
        default=dict,
        told_default="unset",
        told_values="`NAME=PATH`, or several with commas between them",
        option=Option("model", repeated="NAME=PATH"),
    )
    """Models with names of your choice, each from a path of its own: its folder, its file or a `.tar.gz`. They take the
    place of those in `LIGHTBOX_MODEL_DIR`, of which only `code/` counts then."""

    default_model: Annotated[str | None, BeforeValidator(parse_default_model)] = setting(
        "Models", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME", told_default="the first by name"
    )
    """Model for requests that name none. Unset, or with the value `None`, it is the first model by name."""

    model_server: Annotated[Literal["auto", "tensorflow_model_server", "embedded"], BeforeValidator(in_lower_case)] = (
        setting("Model servers and wires", "LIGHTBOX_MODEL_SERVER", default="auto")
    )
    """Model server to start. `tensorflow_model_server` is TensorFlow Serving's binary, `embedded` the one in this
    repository. `auto` takes the binary if it is on PATH, else the embedded one."""

    engine: Annotated[EngineName | None, BeforeValidator(in_lower_case)] = setting(
        "Model servers and wires", "LIGHTBOX_ENGINE", told_values="an engine of [engines](engines.md), `auto`"
    )
    """What the embedded model server executes models with: an engine for all, or `auto` for the one that suits each
    model: OpenVINO where its answers are TensorFlow's and come faster. Set, it asks for the embedded server; without it
    `tensorflow`, or `auto` where TensorFlow is not installed. `tensorflow` leaves files of other formats than
    SavedModel to the fastest engine that opens them. `engine` in a model's own `code/lightbox.json` is for that model
    alone, and in `LIGHTBOX_OPTIONS` for all; both win over this.
    What is found out about models is kept below `XDG_CACHE_HOME`, else `~/.cache`; where it is empty, nowhere."""

    transports: Annotated[tuple[TransportName, ...] | None, BeforeValidator(parse_transports)] = setting(
        "Model servers and wires",
        "LIGHTBOX_TRANSPORT",
        "PREDICT_USING_GRPC",
        told_default="`local,grpc,rest` with the embedded model server, else `grpc`",
        told_values="one or several of `local`, `grpc`, `rest`, such as `grpc,rest`",
        option=Option("transport"),
    )
    """Wires to the model server, the default one first. A request chooses one with `X-Amzn-SageMaker-Custom-Attributes:
    tfs-transport=rest`, and gets 400 for a wire that is not listed. `local` carries gRPC's messages over a unix socket
    without gRPC, with the same answers for less processor time; the embedded model server alone has it. `grpc` needs no
    TCP port. `rest` opens one, which tensorflow_model_server binds on all interfaces. `PREDICT_USING_GRPC` set to true
    or false means `grpc` or `rest`."""

    safe_port_range: Annotated[tuple[int, int] | None, BeforeValidator(parse_port_range)] = setting(
        "Model servers and wires", "SAGEMAKER_SAFE_PORT_RANGE", told_values="1 to 65535, two ports per model server"
    )
    """Ports for the model servers, as `low-high`. Server i uses low+2i for gRPC and low+2i+1 for REST. Unset, gRPC uses
    9000 and REST 8501. `LIGHTBOX_TRANSPORT` decides which of them are open."""

    instance_count: int = setting("Model servers and wires", "SAGEMAKER_TFS_INSTANCE_COUNT", default=1, ge=1, le=64)
    """Number of model servers behind the sidecar. Requests avoid one that has ended until it is back."""

    inter_op_parallelism: int = setting(
        "Model servers and wires", "SAGEMAKER_TFS_INTER_OP_PARALLELISM", default=0, ge=0
    )
    """Operations that the model server runs at once. 0 lets it choose."""

    intra_op_parallelism: int = setting(
        "Model servers and wires", "SAGEMAKER_TFS_INTRA_OP_PARALLELISM", default=0, ge=0
    )
    """Threads for one operation of the model server. Unset, a start chooses: one where a call of the model is short or
    there is one core, else one for each core; `lightbox check` tells which and why. 0 leaves it to TensorFlow."""

    gpu_memory_margin: float = setting(
        "Model servers and wires", "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", default=0.2, ge=0, lt=1
    )
    """Share of the GPU's memory that stays free when several model servers divide it."""

    port: int = setting("Port", "SAGEMAKER_BIND_TO_PORT", "AIP_HTTP_PORT", "PORT", default=8080, ge=1, le=65535)
    """Port on which nginx listens. The first of its variables that is set counts. `PORT` counts only beside
    `K_SERVICE`, which Cloud Run sets too: elsewhere it may be about another program."""

    nginx: bool = setting("Port", "LIGHTBOX_NGINX", default=True)
    """Serve through nginx. `false` is for a first try where nginx is not installed: gunicorn listens on loopback, and
    there is no limit for slow clients, no TLS, no key, no page, no stream, no gRPC port and no `/metrics`."""

    tls_cert: Path | None = setting("TLS", "LIGHTBOX_TLS_CERT")
    """Certificate with its chain, a file in PEM. Set, nginx's ports, gRPC's too, speak TLS 1.2 and 1.3 and nothing
    plain; HTTP's has HTTP/1.1 and HTTP/2. A folder means `tls.crt` in it, as Kubernetes mounts secrets. When the files
    change nginx loads them, once certificate and key match and are the same for two seconds."""

    tls_key: Path | None = setting(
        "TLS", "LIGHTBOX_TLS_KEY", told_default="where the certificate is: in its folder, or in its file"
    )
    """Key of the certificate, a file in PEM without a passphrase. A folder means `tls.key` in it. The user as whom
    Lightbox runs must be able to read it."""

    tls_client_ca: Path | None = setting("TLS", "LIGHTBOX_TLS_CLIENT_CA")
    """Certificates of the authorities whose client certificates are accepted, a file in PEM. A folder means `ca.crt` in
    it. Set, a request without a client certificate gets 403 at both ports, but for `/ping` and `/v2/health/`, and for
    gRPC's health service at its own; one with another authority's gets 400."""

    workers: int = setting(
        "Workers and queue",
        "SAGEMAKER_GUNICORN_WORKERS",
        default=available_cores,
        ge=1,
        le=64,
        told_default="the number of cores",
    )
    """Number of gunicorn worker processes."""

    worker_class: Annotated[
        Literal["gthread", "gevent", "eventlet", "sync", "tornado"], BeforeValidator(in_lower_case)
    ] = setting("Workers and queue", "SAGEMAKER_GUNICORN_WORKER_CLASS", default="gthread")
    """gunicorn's worker class, accepted for AWS's sake. Workers always have threads, as with `gthread`. `sync` and
    `tornado` only change the default number of threads to 1, because they run one request at a time."""

    threads: int = setting(
        "Workers and queue",
        "SAGEMAKER_GUNICORN_THREADS",
        default=lambda given: 1 if given.get("worker_class") in ONE_AT_A_TIME else 8,
        ge=1,
        le=256,
        told_default="8; 1 with `sync` and `tornado`",
    )
    """Number of threads in each worker: the requests that it works on at once."""

    max_waiting: int = setting("Workers and queue", "LIGHTBOX_MAX_WAITING", default=32, ge=0, le=1024)
    """Requests per worker that may wait for a thread. The limit holds for the sum over all workers. Over it a request
    gets 503 with Retry-After at once."""

    batch: bool = setting("Time", "SAGEMAKER_BATCH", default=False)
    """Batch transform mode; SageMaker sets it. Requests get more time and the model server's queue has no limit, unless
    the settings for these say otherwise."""

    request_timeout: float = setting(
        "Time",
        "LIGHTBOX_REQUEST_TIMEOUT_SECONDS",
        "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS",
        default=lambda given: BATCH_TIMEOUT if given.get("batch") else 30.0,
        gt=0,
        le=3600,
        told_default="30; 60 where an `inference.py` answers; 600 in batch transform",
        unit="s",
    )
    """Time until a request that is not answered gets 504. The timeouts of gunicorn and nginx are derived from it,
    each longer than the one inside it. In multi-model mode loading or unloading a model may take 60 s, if that is
    more."""

    proxy_read_timeout: float | None = setting(
        "Time",
        "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS",
        gt=0,
        le=7200,
        told_default="10 more than the request timeout",
        unit="s",
    )
    """Time that nginx waits for a response. Set alone, it bounds requests too: an `inference.py` may take a second
    less than this, the built-in handling this long, but no longer than its default. A request timeout that is set and
    at least as long overrides it."""

    wait_seconds: float | None = setting("Time", "SAGEMAKER_TFS_WAIT_TIME_SECONDS", gt=0, le=86400, unit="s")
    """Time that the models may take to become ready at start. After it the start fails. Handlers of AWS's API get
    the value as `context.timeout` (60 if unset). If it is set, it also bounds the load of a model in multi-model mode
    and the request that Lightbox sends to the model between `input_handler` and `output_handler`."""

    drain_seconds: float = setting("Time", "LIGHTBOX_DRAIN_SECONDS", default=30.0, ge=0, le=3600, unit="s")
    """Time that accepted requests have to finish after SIGTERM."""

    max_body_mb: int = setting("Limits", "LIGHTBOX_MAX_BODY_MB", default=100, ge=1, le=2048, unit="MiB")
    """Limit for one request body or gRPC message, also when it is decompressed. Over it a request gets 413, a gRPC call
    RESOURCE_EXHAUSTED."""

    request_memory_mb: int = setting(
        "Limits",
        "LIGHTBOX_REQUEST_MEMORY_MB",
        default=default_request_memory_mb,
        ge=16,
        told_default="a quarter of the container's memory",
        unit="MiB",
    )
    """Limit for the memory that the requests of all workers hold together. Each worker gets an equal part. A request
    that needs more than the part gets 413, one that finds it in use gets 503. A quarter of it is for the images of
    sessions, where these are on. Set, it also bounds the request bodies that nginx holds together, in place of a
    quarter of the memory that is free at start. Half of the free space of `TMPDIR` bounds them as well, but twice
    `LIGHTBOX_MAX_BODY_MB` always has room. Over that a request gets 503 before its body is read. Bodies of 1 MB and
    more count with their declared length. A chunked body declares none: it counts as `LIGHTBOX_MAX_BODY_MB`, or as 2
    MiB where there is no room for that, and may then have no more. Bodies larger than 10 MB share half of the limit.
    The number of requests bounds bodies under 1 MB."""

    max_image_pixels: int = setting("Limits", "LIGHTBOX_MAX_IMAGE_PIXELS", default=50_000_000, ge=1, unit="pixels")
    """Limit for the width times the height of one image. Over it a request gets 413 before the image is decoded. All
    images of one request, in a form, in JSON or in a BYTES tensor, may have ten times as many. Decoding one image may
    take 8 bytes for each, and at least 400 MB: the image's header gives the estimate, 8 bytes per pixel for most
    formats, 16.5 for WEBP, 20 for AVIF, up to 12 for progressive JPEG. No side may have more than 65535. A worker
    decodes at most twice its share of the cores at once, and at least two images."""

    enable_batching: bool = setting(
        "Batching in the model server", "SAGEMAKER_TFS_ENABLE_BATCHING", default=False, option=Option("batching")
    )
    """Let the model server combine concurrent requests into batches."""

    max_batch_size: int = setting("Batching in the model server", "SAGEMAKER_TFS_MAX_BATCH_SIZE", default=8, ge=1)
    """Limit for the number of instances in one batch."""

    batch_timeout_micros: int = setting(
        "Batching in the model server", "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", default=1000, ge=0, unit="µs"
    )
    """Time that a batch waits for more requests."""

    num_batch_threads: int = setting(
        "Batching in the model server",
        "SAGEMAKER_TFS_NUM_BATCH_THREADS",
        default=available_cores,
        ge=1,
        told_default="the number of cores",
    )
    """Batches that run at once."""

    max_enqueued_batches: int = setting(
        "Batching in the model server",
        "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
        default=lambda given: NO_LIMIT if given.get("batch") else available_cores(),
        ge=1,
        told_default="the number of cores; 100000000 in batch transform",
    )
    """Batches that may wait for a thread. Over it the model server refuses requests."""

    code_dir: Path = setting("Code for all models", "LIGHTBOX_CODE_DIR", default=Path("/opt/ml/code"))
    """Folder with `inference.py`, `lib/` and `requirements.txt` for models without code of their own, in multi-model
    mode. Lightbox searches `code/` in the model directory after it."""

    universal_bucket: str | None = setting("Code for all models", "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET")
    """S3 bucket with an `inference.py` for all models of multi-model mode. It is downloaded at start, if the prefix is
    set too and neither `LIGHTBOX_CODE_DIR` nor `code/` in the model directory exists."""

    universal_prefix: str | None = setting("Code for all models", "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX")
    """Prefix of the keys in that bucket, such as a folder."""

    log_format: Annotated[Literal["text", "json"], BeforeValidator(in_lower_case)] = setting(
        "Logs and metrics", "LIGHTBOX_LOG_FORMAT", default="text"
    )
    """Format of the log lines. `json` writes one object per line."""

    gunicorn_loglevel: Annotated[
        Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(in_lower_case)
    ] = setting("Logs and metrics", "SAGEMAKER_GUNICORN_LOGLEVEL", default="info", option=Option("log-level"))
    """Log level of the sidecar and of handlers. `debug` also logs each step of a start of gunicorn and of the model
    server."""

    nginx_loglevel: Annotated[
        Literal["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"], BeforeValidator(in_lower_case)
    ] = setting("Logs and metrics", "SAGEMAKER_TFS_NGINX_LOGLEVEL", default="error")
    """Log level of nginx."""

    metrics: bool = setting("Logs and metrics", "LIGHTBOX_METRICS", default=True)
    """Serve `/metrics` for Prometheus. If it is off, nothing is counted and the route is 404."""

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
    def gunicorn_timeout(self) -> int:
        """Seconds after which gunicorn replaces a worker that gives no sign of life."""
        return int(self.handler_seconds) + 5

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
    def most_requests(self) -> int:
        """Requests that may be in progress or wait in all workers together."""
        return self.workers * (self.threads + self.max_waiting)


def variable_names(field: str, part: type[BaseModel] = Settings) -> list[str]:
    """Return the environment variables of a field, the one that counts most first."""
    alias = part.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias)]
