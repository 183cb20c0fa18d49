"""Every environment variable that Lightbox reads, declared once, and checked at start.

Names that AWS's TensorFlow Serving container knows (``SAGEMAKER_*``) keep their meaning; what is
ours is called ``LIGHTBOX_*``. ``docs/settings.md`` is generated from this file and its bases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator

from lightbox.concurrency import available_cores
from lightbox.memory_budget import default_request_memory_mb
from lightbox.settings_base import (
    ONE_AT_A_TIME,
    RequestMemory,
    ScalingName,
    TransportName,
    in_lower_case,
    parse_default_model,
    parse_image_size,
    parse_names,
    parse_transports,
)
from lightbox.settings_model_server import ModelServerSettings

P = TypeVar("P", bound=BaseModel)


class Settings(ModelServerSettings):
    """The effective settings. Fields are in the order of the settings page, those of its base classes first."""

    _parts: dict[type[BaseModel], BaseModel] = PrivateAttr(default_factory=dict)

    def of(self, part: type[P]) -> P:
        """Return the settings of a feature."""
        found = self._parts.get(part)
        return found if isinstance(found, part) else part()

    def add(self, part: BaseModel) -> None:
        """Take the settings of a feature, as the environment gives them."""
        self._parts[type(part)] = part

    model_dir: Path = Field(Path("/opt/ml/model"), validation_alias="LIGHTBOX_MODEL_DIR")
    """Folder of the models. It holds `<N>/`, `<name>/<N>/`, `export/Servo/<N>/` or one SavedModel. In multi-model mode
    the default is `/opt/ml/models`."""

    multi_model: bool = Field(False, validation_alias="SAGEMAKER_MULTI_MODEL")
    """Multi-model mode: start without models, and load, list and unload them with requests to `/models`."""

    code_dir: Path = Field(Path("/opt/ml/code"), validation_alias="LIGHTBOX_CODE_DIR")
    """Folder with `inference.py`, `lib/` and `requirements.txt` for models without code of their own, in multi-model
    mode. Lightbox searches `code/` in the model directory after it."""

    max_models: int = Field(1000, ge=1, le=100_000, validation_alias="LIGHTBOX_MAX_MODELS")
    """Limit for the number of models that are loaded in multi-model mode. Over it a load gets 507."""

    max_archive_mb: int = Field(4096, ge=1, validation_alias="LIGHTBOX_MAX_ARCHIVE_MB")
    """Limit in MiB for the unpacked size of a model's archive in multi-model mode. Over it a load gets 413. The same
    holds, whatever is set here, for an archive that unpacks to more than 64 MiB and more than 100 times its own
    size."""

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

    request_memory_mb: RequestMemory = Field(
        default_factory=default_request_memory_mb, validation_alias="LIGHTBOX_REQUEST_MEMORY_MB"
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
    def worker_memory(self) -> int:
        """Bytes that the requests of one worker may hold; the gRPC front is a worker too."""
        own_processes = self.workers + (self.kserve_grpc_port is not None)
        return ((self.request_memory_mb << 20) - self.session_bytes) // own_processes

    @property
    def session_bytes(self) -> int:
        """Bytes that the images of all sessions may have together."""
        return (self.sessions_memory_mb or self.request_memory_mb // 4) << 20 if self.sessions else 0

    @property
    def grpc_bytes(self) -> int:
        """Bytes that all gRPC messages may have together."""
        return max(self.max_grpc_mb or 0, 2 * self.max_body_mb) << 20

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
