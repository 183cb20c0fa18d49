"""Lightbox's own environment variables, declared once, and checked at start; those of features are with them.

Names that AWS's TensorFlow Serving container knows (``SAGEMAKER_*``) keep their meaning; what is
ours is called ``LIGHTBOX_*``. ``docs/settings.md`` is generated from this file and the features'.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator

from lightbox.core.settings_types import (
    NO_LIMIT,
    ONE_AT_A_TIME,
    PART,
    ScalingName,
    TransportName,
    in_lower_case,
    parse_default_model,
    parse_image_size,
    parse_names,
    parse_port_range,
    parse_transports,
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

    port: int = Field(8080, ge=1, le=65535, validation_alias="SAGEMAKER_BIND_TO_PORT")
    """Port on which nginx listens."""

    safe_port_range: Annotated[tuple[int, int] | None, BeforeValidator(parse_port_range)] = Field(
        None, validation_alias="SAGEMAKER_SAFE_PORT_RANGE"
    )
    """Ports for the model servers, as `low-high`. Server i uses low+2i for gRPC and low+2i+1 for REST. Unset, gRPC uses
    9000 and REST 8501. `LIGHTBOX_TRANSPORT` decides which of them are open."""

    max_bodies_mb: int | None = Field(None, ge=1, le=1 << 20, validation_alias="LIGHTBOX_MAX_BODIES_MB")
    """Limit in MiB for all request bodies that nginx holds together. Over it a request gets 503 before its body is
    read. Bodies of 1 MB and more count with their declared length. A chunked body declares none: it counts as
    `LIGHTBOX_MAX_BODY_MB`, or as 2 MiB where there is no room for that, and may then have no more. Bodies larger than
    10 MB share half of the limit. The number of requests bounds bodies under 1 MB. A value below `LIGHTBOX_MAX_BODY_MB`
    counts as that. The default is a quarter of the memory that is free at start, at most half of the free space of
    `TMPDIR`, and at least twice `LIGHTBOX_MAX_BODY_MB`."""

    max_connections_per_address: int | None = Field(
        None, ge=1, le=65535, validation_alias="LIGHTBOX_MAX_CONNECTIONS_PER_ADDRESS"
    )
    """Limit for connections of one client address that have a request in progress. Over it a request gets 429. The
    arrival of its body counts. Leave it unset behind a proxy or load balancer: all callers share its address there.
    gRPC callers are not counted."""

    max_rate_per_address: int | None = Field(None, ge=1, le=100_000, validation_alias="LIGHTBOX_MAX_RATE_PER_ADDRESS")
    """Limit for the requests per second of one client address. Over it a request gets 429. A burst may be as large as
    the requests of one second. Leave it unset behind a proxy or load balancer. gRPC callers are not counted."""

    batch: bool = Field(False, validation_alias="SAGEMAKER_BATCH")
    """Batch transform mode; SageMaker sets it. Requests get more time and the model server's queue has no limit, unless
    the settings for these say otherwise."""

    request_timeout: float = Field(
        default_factory=lambda given: BATCH_TIMEOUT if given.get("batch") else 30.0,
        gt=0,
        le=3600,
        validation_alias=AliasChoices("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS"),
    )
    """Seconds until a request that is not answered gets 504. The timeouts of gunicorn and nginx are derived from it,
    each longer than the one inside it. In multi-model mode loading or unloading a model may take 60 s, if that is
    more."""

    proxy_read_timeout: float | None = Field(
        None, gt=0, le=7200, validation_alias="SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS"
    )
    """Seconds that nginx waits for a response. Set alone, it bounds requests too: an `inference.py` may take a second
    less than this, the built-in handling this long, but no longer than its default. A request timeout that is set and
    at least as long overrides it."""

    wait_seconds: float | None = Field(None, gt=0, le=86400, validation_alias="SAGEMAKER_TFS_WAIT_TIME_SECONDS")
    """Seconds that the models may take to become ready at start. After them the start fails. Handlers of AWS's API get
    the value as `context.timeout` (60 if unset). If it is set, it also bounds the load of a model in multi-model mode
    and the request that Lightbox sends to the model between `input_handler` and `output_handler`."""

    drain_seconds: float = Field(30.0, ge=0, le=3600, validation_alias="LIGHTBOX_DRAIN_SECONDS")
    """Seconds that accepted requests have to finish after SIGTERM."""

    inter_op_parallelism: int = Field(0, ge=0, validation_alias="SAGEMAKER_TFS_INTER_OP_PARALLELISM")
    """Operations that the model server runs at once. 0 lets it choose."""

    intra_op_parallelism: int = Field(0, ge=0, validation_alias="SAGEMAKER_TFS_INTRA_OP_PARALLELISM")
    """Threads for one operation of the model server. Unset, a start chooses: one where a call of the model is short or
    there is one core, else one for each core; `serve.sh check` tells which and why. 0 leaves it to TensorFlow."""

    gpu_memory_margin: float = Field(0.2, ge=0, lt=1, validation_alias="SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN")
    """Share of the GPU's memory that stays free when several model servers divide it."""

    enable_batching: bool = Field(False, validation_alias="SAGEMAKER_TFS_ENABLE_BATCHING")
    """Let the model server combine concurrent requests into batches."""

    max_batch_size: int = Field(8, ge=1, validation_alias="SAGEMAKER_TFS_MAX_BATCH_SIZE")
    """Limit for the number of instances in one batch."""

    batch_timeout_micros: int = Field(1000, ge=0, validation_alias="SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS")
    """Microseconds that a batch waits for more requests."""

    num_batch_threads: int = Field(
        default_factory=available_cores, ge=1, validation_alias="SAGEMAKER_TFS_NUM_BATCH_THREADS"
    )
    """Batches that run at once."""

    max_enqueued_batches: int = Field(
        default_factory=lambda given: NO_LIMIT if given.get("batch") else available_cores(),
        ge=1,
        validation_alias="SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
    )
    """Batches that may wait for a thread. Over it the model server refuses requests."""

    model_dir: Path = Field(Path("/opt/ml/model"), validation_alias="LIGHTBOX_MODEL_DIR")
    """Folder of the models. It holds `<N>/`, `<name>/<N>/`, `export/Servo/<N>/` or one SavedModel. In multi-model mode
    the default is `/opt/ml/models`."""

    code_dir: Path = Field(Path("/opt/ml/code"), validation_alias="LIGHTBOX_CODE_DIR")
    """Folder with `inference.py`, `lib/` and `requirements.txt` for models without code of their own, in multi-model
    mode. Lightbox searches `code/` in the model directory after it."""

    universal_bucket: str | None = Field(None, validation_alias="SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET")
    """S3 bucket with an `inference.py` for all models of multi-model mode. It is downloaded at start, if the prefix is
    set too and neither `LIGHTBOX_CODE_DIR` nor `code/` in the model directory exists."""

    universal_prefix: str | None = Field(None, validation_alias="SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX")
    """Prefix of the keys in that bucket, such as a folder."""

    default_model: Annotated[str | None, BeforeValidator(parse_default_model)] = Field(
        None, validation_alias="SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
    )
    """Model for requests that name none. Unset, or with the value `None`, it is the first model by name."""

    transports: Annotated[tuple[TransportName, ...] | None, BeforeValidator(parse_transports)] = Field(
        None, validation_alias=AliasChoices("LIGHTBOX_TRANSPORT", "PREDICT_USING_GRPC")
    )
    """Wires to the model server, the default one first. A request chooses one with `X-Amzn-SageMaker-Custom-Attributes:
    tfs-transport=rest`, and gets 400 for a wire that is not listed. `local` carries gRPC's messages over a unix socket
    without gRPC, with the same answers for less processor time; the embedded model server alone has it. `grpc` needs no
    TCP port. `rest` opens one, which tensorflow_model_server binds on all interfaces. `PREDICT_USING_GRPC` set to true
    or false means `grpc` or `rest`."""

    model_server: Annotated[Literal["auto", "tensorflow_model_server", "embedded"], BeforeValidator(in_lower_case)] = (
        Field("auto", validation_alias="LIGHTBOX_MODEL_SERVER")
    )
    """Model server to start. `tensorflow_model_server` is TensorFlow Serving's binary, `embedded` the one in this
    repository. `auto` takes the binary if it is on PATH, else the embedded one."""

    engine: Annotated[Literal["tensorflow", "openvino", "auto"] | None, BeforeValidator(in_lower_case)] = Field(
        None, validation_alias="LIGHTBOX_ENGINE"
    )
    """What the embedded model server executes models with: `tensorflow`, `openvino`, or `auto` for OpenVINO where its
    answers are TensorFlow's and come faster. Set, it asks for the embedded server; without it `tensorflow`. `engine` in
    a model's `code/lightbox.json` is for that model alone."""

    precision: Annotated[Literal["f32", "bf16", "int8"], BeforeValidator(in_lower_case)] = Field(
        "f32", validation_alias="LIGHTBOX_PRECISION"
    )
    """How OpenVINO computes: `f32`; `bf16`, which is faster on CPUs that have it and less exact: under `auto` such
    answers seldom pass for TensorFlow's; or `int8` for the models that `scripts/quantize_model.py` has made, whose
    answers are not TensorFlow's, and f32 for the others."""

    engine_cache_dir: Path | None = Field(None, validation_alias="LIGHTBOX_ENGINE_CACHE_DIR")
    """Folder in which OpenVINO's compiled models are kept, and what was found out about each model; without it, or
    where it cannot be made, they are made again at each start."""

    instance_count: int = Field(1, ge=1, le=64, validation_alias="SAGEMAKER_TFS_INSTANCE_COUNT")
    """Number of model servers behind the sidecar. Requests avoid one that has ended until it is back."""

    scaling: Annotated[ScalingName | None, BeforeValidator(in_lower_case)] = Field(
        None, validation_alias="LIGHTBOX_SCALING"
    )
    """Scaling of pixel values. `none` leaves 0..255, `unit` gives 0..1, `tf` -1..1; `tf`, `torch` and `caffe` are
    Keras's modes. Overrides `scaling` in a model's `code/lightbox.json`. Without either the scaling is `none`."""

    image_size: Annotated[tuple[int, int] | None, BeforeValidator(parse_image_size)] = Field(
        None, validation_alias="LIGHTBOX_IMAGE_SIZE"
    )
    """Size of images for a model without a fixed input size: `640` or `640x480` (width x height). Unset, such a model
    gets images in their original size."""

    outputs: Annotated[tuple[str, ...] | None, BeforeValidator(parse_names)] = Field(
        None, validation_alias="LIGHTBOX_OUTPUTS"
    )
    """Comma-separated names of the outputs to return. Unset, all outputs are returned."""

    model_changes: Annotated[Literal["hold", "allow"], BeforeValidator(in_lower_case)] = Field(
        "hold", validation_alias="LIGHTBOX_MODEL_CHANGES"
    )
    """What becomes of a new version that takes or gives other things than the version that answers: another kind of
    input, or outputs of other names, dtypes or ranks. `hold` leaves it out and names it in the log, `allow` serves it.
    A version that a start would refuse is left out with both."""

    jsonlines: Annotated[Literal["rows", "document"], BeforeValidator(in_lower_case)] = Field(
        "rows", validation_alias="LIGHTBOX_JSONLINES"
    )
    """Form of responses in `application/jsonlines`. `rows` is one prediction per line, `document` is
    `{"predictions": [...]}` on a single line, as in AWS's container."""

    labels: str | None = Field(None, validation_alias="LIGHTBOX_LABELS")
    """File with the model's class names, one a line: a path, or a name in the model's `code/`. Responses then name
    classes. Overrides `labels` in a model's `code/lightbox.json`."""

    top_k: int | None = Field(None, ge=1, validation_alias="LIGHTBOX_TOP_K")
    """How many classes a response has, the most likely first. Overrides `top_k` in a model's `code/lightbox.json`."""

    max_body_mb: int = Field(100, ge=1, le=2048, validation_alias="LIGHTBOX_MAX_BODY_MB")
    """Limit in MiB for one request body or gRPC message. Over it a request gets 413, a gRPC call RESOURCE_EXHAUSTED."""

    max_text_mb: int = Field(
        default_factory=lambda given: given.get("max_body_mb", 100),
        ge=1,
        le=2048,
        validation_alias="LIGHTBOX_MAX_TEXT_MB",
    )
    """Limit in MiB for one JSON or CSV body, decompressed. Over it a request gets 413."""

    request_memory_mb: int = Field(
        default_factory=default_request_memory_mb, ge=16, validation_alias="LIGHTBOX_REQUEST_MEMORY_MB"
    )
    """Limit in MiB for the memory that the requests of all workers hold together. Each worker gets an equal part. A
    request that needs more than the part gets 413, one that finds it in use gets 503."""

    max_image_pixels: int = Field(50_000_000, ge=1, validation_alias="LIGHTBOX_MAX_IMAGE_PIXELS")
    """Limit for the pixels (width times height) of one image. Over it a request gets 413 before the image is
    decoded."""

    max_request_pixels: int = Field(
        default_factory=lambda given: 10 * given.get("max_image_pixels", 50_000_000),
        ge=1,
        validation_alias="LIGHTBOX_MAX_REQUEST_PIXELS",
    )
    """Limit for the pixels of all images of one request, in a form, in JSON or in a BYTES tensor. Over it a request
    gets 413 before any image is decoded."""

    max_image_side: int = Field(65_535, ge=1, validation_alias="LIGHTBOX_MAX_IMAGE_SIDE")
    """Limit for the width and the height of one image in pixels. Over it a request gets 413."""

    max_image_memory_mb: int = Field(400, ge=1, validation_alias="LIGHTBOX_MAX_IMAGE_MEMORY_MB")
    """Limit in MB for the memory that decoding one image takes. Over it a request gets 413. The image's header gives
    the estimate: 8 bytes per pixel for most formats, 16.5 for WEBP, 20 for AVIF, up to 12 for progressive JPEG.
    A worker decodes at most twice its share of the cores at once, and at least two images."""

    exif_orientation: bool = Field(True, validation_alias="LIGHTBOX_EXIF_ORIENTATION")
    """Rotate images as their EXIF orientation says."""

    fast_decode: bool = Field(False, validation_alias="LIGHTBOX_FAST_DECODE")
    """Decode large JPEGs at reduced scale, which is faster. Pixels change by up to 2/255."""

    resize: Annotated[Literal["auto", "pillow"], BeforeValidator(in_lower_case)] = Field(
        "auto", validation_alias="LIGHTBOX_RESIZE"
    )
    """What resizes images and decodes JPEGs. `auto` uses the compiled resize and simplejpeg where the resize was built
    and the CPU has AVX2 or NEON, and Pillow elsewhere; `pillow` always uses Pillow. The pixels are the same."""

    workers: int = Field(default_factory=available_cores, ge=1, le=64, validation_alias="SAGEMAKER_GUNICORN_WORKERS")
    """Number of gunicorn worker processes."""

    worker_class: Annotated[
        Literal["gthread", "gevent", "eventlet", "sync", "tornado"], BeforeValidator(in_lower_case)
    ] = Field("gthread", validation_alias="SAGEMAKER_GUNICORN_WORKER_CLASS")
    """gunicorn's worker class, accepted for AWS's sake. Workers always have threads, as with `gthread`. `sync` and
    `tornado` only change the default number of threads to 1, because they run one request at a time."""

    threads: int = Field(
        default_factory=lambda given: 1 if given.get("worker_class") in ONE_AT_A_TIME else 8,
        ge=1,
        le=256,
        validation_alias="SAGEMAKER_GUNICORN_THREADS",
    )
    """Number of threads in each worker: the requests that it works on at once."""

    max_waiting: int = Field(32, ge=0, le=1024, validation_alias="LIGHTBOX_MAX_WAITING")
    """Requests per worker that may wait for a thread. The limit holds for the sum over all workers. Over it a request
    gets 503 with Retry-After at once."""

    gunicorn_loglevel: Annotated[
        Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(in_lower_case)
    ] = Field("info", validation_alias="SAGEMAKER_GUNICORN_LOGLEVEL")
    """Log level of the sidecar and of handlers. `debug` also logs each step of a start of gunicorn and of the model
    server."""

    log_format: Annotated[Literal["text", "json"], BeforeValidator(in_lower_case)] = Field(
        "text", validation_alias="LIGHTBOX_LOG_FORMAT"
    )
    """Format of the log lines. `json` writes one object per line."""

    metrics: bool = Field(True, validation_alias="LIGHTBOX_METRICS")
    """Serve `/metrics` for Prometheus. If it is off, nothing is counted and the route is 404."""

    nginx_loglevel: Annotated[
        Literal["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"], BeforeValidator(in_lower_case)
    ] = Field("error", validation_alias="SAGEMAKER_TFS_NGINX_LOGLEVEL")
    """Log level of nginx."""

    _parts: dict[type[BaseModel], BaseModel] = PrivateAttr(default_factory=dict)
    _has_fixed_models: bool = PrivateAttr(True)

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

    @field_validator("model_dir", "code_dir", "engine_cache_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.absolute()

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
