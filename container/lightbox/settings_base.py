"""What the settings stand on: their values, and those of the front and of time. ``settings_model_server.py`` and
``settings.py`` have the others."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

NO_LIMIT = 100_000_000
"""Batches in the queue; AWS's container takes the same number in batch transform."""

ONE_AT_A_TIME = ("sync", "tornado")
"""gunicorn's worker classes that run one request at a time."""

ScalingName = Literal["none", "unit", "tf", "torch", "caffe"]


class TransportName(StrEnum):
    """The wire between the sidecar and the model server; the embedded server alone has ``local``."""

    LOCAL = "local"
    GRPC = "grpc"
    REST = "rest"


def in_lower_case(value: Any) -> Any:
    """Return a text without the case and the blanks that do not matter; all else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def parse_default_model(value: Any) -> Any:
    """Return a model's name; None for the text that AWS's container has where there is none."""
    return None if value == "None" else value


def parse_transports(value: Any) -> Any:
    """Return the wires of a list such as ``"grpc,rest"``; true and false too, as PREDICT_USING_GRPC has it."""
    if not isinstance(value, str):
        return value
    words = [{"true": "grpc", "1": "grpc", "false": "rest", "0": "rest"}.get(w, w) for w in _words(value.lower())]
    if not words or set(words) - set(TransportName) or len(set(words)) < len(words):
        raise ValueError("expected local, grpc, rest, or several with the default one first, such as grpc,rest")
    return tuple(words)


def parse_port_range(value: Any) -> Any:
    """Return (low, high) for ``"9000-9999"``; raise ValueError for any other text."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", value)
    if not match:
        raise ValueError("expected two port numbers as low-high, such as 9000-9999")
    low, high = int(match[1]), int(match[2])
    if not 1 <= low < high <= 65535:
        raise ValueError("expected two ports from 1 to 65535 with low below high")
    return low, high


def parse_image_size(value: Any) -> Any:
    """Return (width, height) for ``"640"`` or ``"640x480"``; raise ValueError for any other text."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d{1,5})(?:\s*[xX]\s*(\d{1,5}))?\s*", value)
    width, height = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (width and height):
        raise ValueError("expected one side or width x height in pixels, such as 640 or 640x480")
    return width, height


def parse_names(value: Any) -> Any:
    """Return the names of a comma-separated list, None where there is none."""
    if not isinstance(value, str):
        return value
    return tuple(_words(value)) or None


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def more_than_sessions(value: int, info: ValidationInfo) -> int:
    """Return the MiB for requests; raise ValueError where those for sessions, a part of them, are as many."""
    part = info.data.get("sessions_memory_mb") or 0
    if info.data.get("sessions") and part >= value:
        raise ValueError(f"expected more than its part for sessions, LIGHTBOX_SESSIONS_MEMORY_MB={part}")
    return value


RequestMemory = Annotated[int, AfterValidator(more_than_sessions), Field(ge=16, validate_default=True)]


PART = ConfigDict(extra="ignore", frozen=True, defer_build=True)
"""Of every class with settings. They are built when first used. The docstrings of fields are for the settings page
(scripts/write_settings_page.py): to read them here, every process would parse the source."""


class FrontSettings(BaseModel):
    """The first part of ``settings.Settings``."""

    model_config = PART

    port: int = Field(8080, ge=1, le=65535, validation_alias="SAGEMAKER_BIND_TO_PORT")
    """Port on which nginx listens."""

    kserve_grpc_port: int | None = Field(None, ge=1, le=65535, validation_alias="LIGHTBOX_KSERVE_GRPC_PORT")
    """Port of the Open Inference Protocol's gRPC service. Unset, that service is off. Its REST form is always on, at
    nginx's port."""

    kserve_reflection: bool = Field(False, validation_alias="LIGHTBOX_KSERVE_REFLECTION")
    """Enable gRPC server reflection, so that tools such as grpcurl can list the services and their messages."""

    max_grpc_mb: int | None = Field(None, ge=1, le=1 << 20, validation_alias="LIGHTBOX_MAX_GRPC_MB")
    """Limit in MiB for all gRPC messages together. A message counts from its first byte until it is answered, a
    compressed one with its decompressed size. Over the limit the largest message that is still arriving ends with
    UNAVAILABLE. The minimum, which is also the default, is twice `LIGHTBOX_MAX_BODY_MB`."""

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

    @field_validator("kserve_grpc_port")
    @classmethod
    def _not_nginx_port(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value == info.data.get("port"):
            raise ValueError(f"expected another port than nginx's, SAGEMAKER_BIND_TO_PORT={value}")
        return value


BATCH_TIMEOUT = 600.0
"""Seconds that SageMaker's batch transform waits for an answer, unless the job says otherwise."""

HANDLER_SECONDS = 60.0
"""Seconds that AWS's container lets a handler take; SageMaker waits as long for an answer of an endpoint."""

CALL_SECONDS = 60
"""Seconds that AWS's container gives a call of the model server, and tells handlers."""

LOAD_SECONDS = 60.0
"""Seconds that SageMaker waits for a model to be loaded; a request of callers may be allowed less."""


class TimeSettings(FrontSettings):
    """The second part of ``settings.Settings``."""

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

    sessions: bool = Field(
        False, validation_alias=AliasChoices("LIGHTBOX_SESSIONS", "SAGEMAKER_ENABLE_STATEFUL_SESSIONS")
    )
    """Keep a caller's image in a session for later requests. If it is off, a request with a session's header gets
    400."""

    session_seconds: int = Field(
        1200,
        ge=1,
        le=86400,
        validation_alias=AliasChoices("LIGHTBOX_SESSION_SECONDS", "SAGEMAKER_SESSIONS_EXPIRATION"),
    )
    """Seconds from a session's beginning until it expires."""

    max_sessions: int = Field(1000, ge=1, le=10_000, validation_alias="LIGHTBOX_MAX_SESSIONS")
    """Limit for the number of sessions, each of which keeps at most one image. Over it a new session gets 503."""

    sessions_memory_mb: int | None = Field(None, ge=1, le=1 << 20, validation_alias="LIGHTBOX_SESSIONS_MEMORY_MB")
    """Limit in MiB for the images of all sessions, at 4 bytes a pixel. It is a part of `LIGHTBOX_REQUEST_MEMORY_MB`:
    requests have the rest. An image that does not fit gets 503, one that can never fit 413. The images are in
    `/dev/shm` if that has so much space free at start, else in `TMPDIR`."""

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
