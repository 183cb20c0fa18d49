"""Every environment variable that Lightbox reads, declared once, and checked at start.

Names that AWS's TensorFlow Serving container knows (``SAGEMAKER_*``) keep their meaning; what is
ours is called ``LIGHTBOX_*``. ``docs/settings.md`` is generated from this file and its bases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, ValidationInfo, field_validator

from lightbox.concurrency import available_cores
from lightbox.memory_budget import default_request_memory_mb
from lightbox.settings_base import (
    NO_LIMIT,
    ONE_AT_A_TIME,
    ScalingName,
    TimeSettings,
    TransportName,
    in_lower_case,
    parse_default_model,
    parse_image_size,
    parse_names,
    parse_transports,
)


class Settings(TimeSettings):
    """The effective settings. Fields are in the order of the settings page, those of its base classes first."""

    model_dir: Path = Field(Path("/opt/ml/model"), validation_alias="LIGHTBOX_MODEL_DIR")
    """Folder of the models: `<N>/`, `<name>/<N>/`, `export/Servo/<N>/`, or one SavedModel."""

    multi_model: bool = Field(False, validation_alias="SAGEMAKER_MULTI_MODEL")
    """Start with no model; models are loaded, listed and unloaded by requests to `/models`. The model directory is
    then `/opt/ml/models` unless it is set."""

    code_dir: Path = Field(Path("/opt/ml/code"), validation_alias="LIGHTBOX_CODE_DIR")
    """Folder with the `inference.py`, `lib/` and `requirements.txt` for all models of multi-model mode that have none
    of their own. After it `code/` in the model directory is looked at."""

    max_models: int = Field(1000, ge=1, le=100_000, validation_alias="LIGHTBOX_MAX_MODELS")
    """Most models that are loaded at once in multi-model mode; beyond it a load is answered with 507."""

    max_archive_mb: int = Field(4096, ge=1, validation_alias="LIGHTBOX_MAX_ARCHIVE_MB")
    """Most MiB that a model's archive may unpack to in multi-model mode; beyond it 413. So is what unpacks to more than
    100 times its own size and 64 MiB, whatever is set here."""

    universal_bucket: str | None = Field(None, validation_alias="SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET")
    """S3 bucket with an `inference.py` for all models. With the prefix, and where there is neither `LIGHTBOX_CODE_DIR`
    nor a `code/` in the model directory, it is downloaded at start."""

    universal_prefix: str | None = Field(None, validation_alias="SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX")
    """Folder in that bucket, or how the names of the files begin."""

    default_model: Annotated[str | None, BeforeValidator(parse_default_model)] = Field(
        None, validation_alias="SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
    )
    """The model that answers when a request names none; without it, or with `None`, the first by name."""

    transports: Annotated[tuple[TransportName, ...] | None, BeforeValidator(parse_transports)] = Field(
        None, validation_alias=AliasChoices("LIGHTBOX_TRANSPORT", "PREDICT_USING_GRPC")
    )
    """The wires to the model server: `grpc`, `rest`, `grpc,rest` or `rest,grpc`. The first carries requests that choose
    none; a request chooses with `X-Amzn-SageMaker-Custom-Attributes: tfs-transport=rest`, and gets 400 for a wire that
    is not named here. Without it `grpc`, and with the embedded model server `grpc,rest`. `grpc` needs no TCP port;
    `rest` opens one, which tensorflow_model_server binds on all interfaces. `PREDICT_USING_GRPC` says `grpc` or `rest`
    with true or false."""

    model_server: Annotated[Literal["auto", "tensorflow_model_server", "embedded"], BeforeValidator(in_lower_case)] = (
        Field("auto", validation_alias="LIGHTBOX_MODEL_SERVER")
    )
    """`tensorflow_model_server`: the real binary. `embedded`: the one in this repository. `auto`: the real
    binary when it is on PATH, else the embedded one."""

    instance_count: int = Field(1, ge=1, le=64, validation_alias="SAGEMAKER_TFS_INSTANCE_COUNT")
    """Model servers behind the one sidecar; a dead one is avoided until it is back."""

    scaling: Annotated[ScalingName | None, BeforeValidator(in_lower_case)] = Field(
        None, validation_alias="LIGHTBOX_SCALING"
    )
    """What happens to pixel values, by Keras's names: `none` (0..255), `unit` (0..1), `tf` (-1..1), `torch`,
    `caffe`. Overrides `scaling` in a model's `code/lightbox.json`; without either, `none`."""

    image_size: Annotated[tuple[int, int] | None, BeforeValidator(parse_image_size)] = Field(
        None, validation_alias="LIGHTBOX_IMAGE_SIZE"
    )
    """Size to which images are resized for a model that fixes none: `640` or `640x480` (width x height).
    Without it such a model gets images in their own size."""

    outputs: Annotated[tuple[str, ...] | None, BeforeValidator(parse_names)] = Field(
        None, validation_alias="LIGHTBOX_OUTPUTS"
    )
    """Comma-separated names of the outputs that are asked for and returned; without it all of them."""

    jsonlines: Annotated[Literal["rows", "document"], BeforeValidator(in_lower_case)] = Field(
        "rows", validation_alias="LIGHTBOX_JSONLINES"
    )
    """What an answer in `application/jsonlines` is: `rows` for one prediction a line, `document` for
    `{"predictions": [...]}` on a single line, as AWS's container answers it."""

    labels: str | None = Field(None, validation_alias="LIGHTBOX_LABELS")
    """File with the model's class names, one a line, for the user's handler: a path, or a name in the model's `code/`.
    Overrides `labels` in a model's `code/lightbox.json`."""

    top_k: int | None = Field(None, ge=1, validation_alias="LIGHTBOX_TOP_K")
    """How many classes the user's handler returns. Overrides `top_k` in a model's `code/lightbox.json`."""

    max_body_mb: int = Field(100, ge=1, le=2048, validation_alias="LIGHTBOX_MAX_BODY_MB")
    """Largest request body and gRPC message in MiB; beyond it 413, over gRPC RESOURCE_EXHAUSTED."""

    max_text_mb: int = Field(
        default_factory=lambda given: given.get("max_body_mb", 100),
        ge=1,
        le=2048,
        validation_alias="LIGHTBOX_MAX_TEXT_MB",
    )
    """Largest JSON and CSV in MiB, unpacked from gzip: `LIGHTBOX_MAX_BODY_MB` unless set; beyond it 413."""

    request_memory_mb: int = Field(
        default_factory=default_request_memory_mb, ge=16, validation_alias="LIGHTBOX_REQUEST_MEMORY_MB"
    )
    """MiB that the requests of all workers together may hold in memory, divided among the workers: a quarter of the
    container's unless set. A request that needs more than its worker's part gets 413, one that finds it taken 503."""

    max_image_pixels: int = Field(50_000_000, ge=1, validation_alias="LIGHTBOX_MAX_IMAGE_PIXELS")
    """Most pixels (width times height) that an image may have; beyond it 413, before it is decoded."""

    max_request_pixels: int = Field(
        default_factory=lambda given: 10 * given.get("max_image_pixels", 50_000_000),
        ge=1,
        validation_alias="LIGHTBOX_MAX_REQUEST_PIXELS",
    )
    """Most pixels that all images of a request may have together, in a form, in JSON or in a BYTES tensor; beyond it
    413, before any of them is decoded. Ten times `LIGHTBOX_MAX_IMAGE_PIXELS` unless set."""

    max_image_side: int = Field(65_535, ge=1, validation_alias="LIGHTBOX_MAX_IMAGE_SIDE")
    """Most pixels that an image may have in one direction; beyond it 413."""

    max_image_memory_mb: int = Field(400, ge=1, validation_alias="LIGHTBOX_MAX_IMAGE_MEMORY_MB")
    """Most MB that decoding one image may take, as its header tells: 8 bytes a pixel for most, 16.5 for WEBP, up
    to 12 for progressive JPEG; beyond it 413. A worker decodes few at a time: twice its
    share of the cores, two at least."""

    exif_orientation: bool = Field(True, validation_alias="LIGHTBOX_EXIF_ORIENTATION")
    """Turn images upright as their EXIF orientation says."""

    fast_decode: bool = Field(False, validation_alias="LIGHTBOX_FAST_DECODE")
    """Decode large JPEGs at reduced scale: faster, pixels change by up to 2/255."""

    workers: int = Field(default_factory=available_cores, ge=1, le=64, validation_alias="SAGEMAKER_GUNICORN_WORKERS")
    """gunicorn worker processes; without it one for each core."""

    worker_class: Annotated[
        Literal["gthread", "gevent", "eventlet", "sync", "tornado"], BeforeValidator(in_lower_case)
    ] = Field("gthread", validation_alias="SAGEMAKER_GUNICORN_WORKER_CLASS")
    """gunicorn's worker class. Whatever it says, workers have threads, as `gthread` has. `sync` and `tornado` run one
    request at a time, so threads are 1 with them unless set."""

    threads: int = Field(
        default_factory=lambda given: 1 if given.get("worker_class") in ONE_AT_A_TIME else 8,
        ge=1,
        le=256,
        validation_alias="SAGEMAKER_GUNICORN_THREADS",
    )
    """Threads in each worker: as many requests are in progress at once. 8 unless set."""

    max_waiting: int = Field(32, ge=0, le=1024, validation_alias="LIGHTBOX_MAX_WAITING")
    """Requests that may wait for a thread, for each worker. They are counted for all workers together, however they are
    spread; beyond it 503 at once, with Retry-After."""

    gunicorn_loglevel: Annotated[
        Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(in_lower_case)
    ] = Field("info", validation_alias="SAGEMAKER_GUNICORN_LOGLEVEL")
    """Log level of the sidecar."""

    log_format: Annotated[Literal["text", "json"], BeforeValidator(in_lower_case)] = Field(
        "text", validation_alias="LIGHTBOX_LOG_FORMAT"
    )
    """Form of the log lines: `text`, or `json` for one object a line."""

    metrics: bool = Field(True, validation_alias="LIGHTBOX_METRICS")
    """Answer `/metrics` for Prometheus: `on` or `off`; when it is off, nothing is counted and the route is 404."""

    otlp_endpoint: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """Send OpenTelemetry traces there, as OTLP over HTTP; needs the packages of `requirements/tracing.lock`. Its other
    variables (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, ...) count as well."""

    nginx_loglevel: Annotated[
        Literal["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"], BeforeValidator(in_lower_case)
    ] = Field("error", validation_alias="SAGEMAKER_TFS_NGINX_LOGLEVEL")
    """Log level of nginx."""

    inter_op_parallelism: int = Field(0, ge=0, validation_alias="SAGEMAKER_TFS_INTER_OP_PARALLELISM")
    """Operations that the model server runs at the same time; 0 lets it choose."""

    intra_op_parallelism: int = Field(0, ge=0, validation_alias="SAGEMAKER_TFS_INTRA_OP_PARALLELISM")
    """Threads inside one operation of the model server; 0 lets it choose."""

    gpu_memory_margin: float = Field(0.2, ge=0, lt=1, validation_alias="SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN")
    """Share of the GPU's memory that is left free when several model servers divide it."""

    enable_batching: bool = Field(False, validation_alias="SAGEMAKER_TFS_ENABLE_BATCHING")
    """Let the model server join concurrent requests into batches."""

    max_batch_size: int = Field(8, ge=1, validation_alias="SAGEMAKER_TFS_MAX_BATCH_SIZE")
    """Most instances in one batch."""

    batch_timeout_micros: int = Field(1000, ge=0, validation_alias="SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS")
    """Microseconds for which a batch waits for more requests."""

    num_batch_threads: int = Field(
        default_factory=available_cores, ge=1, validation_alias="SAGEMAKER_TFS_NUM_BATCH_THREADS"
    )
    """Batches that are run at the same time."""

    max_enqueued_batches: int = Field(
        default_factory=lambda given: NO_LIMIT if given.get("batch") else available_cores(),
        ge=1,
        validation_alias="SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
    )
    """Batches that may wait for a thread before requests are refused: one for each core, and 100000000 in batch
    transform, unless set."""

    @field_validator("instance_count")
    @classmethod
    def _range_has_room(cls, value: int, info: ValidationInfo) -> int:
        low, high = info.data.get("safe_port_range") or (1, 65535)
        if high - low + 1 < 2 * value:
            raise ValueError(f"model servers need two ports each, and SAGEMAKER_SAFE_PORT_RANGE={low}-{high} has fewer")
        return value

    @field_validator("model_dir", "code_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.absolute()

    @property
    def worker_memory(self) -> int:
        """Bytes that the requests of one worker may hold; the gRPC front is a worker too."""
        return (self.request_memory_mb << 20) // (self.workers + (self.kserve_grpc_port is not None))

    @property
    def grpc_bytes(self) -> int:
        """Bytes that all gRPC messages may have together."""
        return max(self.max_grpc_mb or 0, 2 * self.max_body_mb) << 20

    @property
    def most_requests(self) -> int:
        """Requests that may be in progress or wait in all workers together."""
        return self.workers * (self.threads + self.max_waiting)
