"""The settings of where requests come in: ports, and what callers may do there before a worker sees them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from lightbox.settings_values import parse_port_range


class FrontSettings(BaseModel):
    """The first part of ``settings.Settings``."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    port: int = Field(8080, ge=1, le=65535, validation_alias="SAGEMAKER_BIND_TO_PORT")
    """Port on which nginx listens."""

    kserve_grpc_port: int | None = Field(None, ge=1, le=65535, validation_alias="LIGHTBOX_KSERVE_GRPC_PORT")
    """Port of the Open Inference Protocol's gRPC service; without it that is off. Its REST form is always there, on the
    port of nginx."""

    kserve_reflection: bool = Field(False, validation_alias="LIGHTBOX_KSERVE_REFLECTION")
    """Answer gRPC's server reflection too, so that tools such as grpcurl find the services and their messages."""

    max_grpc_mb: int | None = Field(None, ge=1, le=1 << 20, validation_alias="LIGHTBOX_MAX_GRPC_MB")
    """MiB that all gRPC messages may have together, from their first byte until they are answered; beyond it the
    largest that is still coming is ended with UNAVAILABLE. A compressed one counts as what it unfolds to. Without
    it, and at least, twice `LIGHTBOX_MAX_BODY_MB`."""

    safe_port_range: Annotated[tuple[int, int] | None, BeforeValidator(parse_port_range)] = Field(
        None, validation_alias="SAGEMAKER_SAFE_PORT_RANGE"
    )
    """Ports for the model servers, as `low-high`: server i takes gRPC at low+2i and REST at low+2i+1.
    Without it gRPC is 9000 and REST 8501. `LIGHTBOX_TRANSPORT` says when they are open."""

    max_bodies_mb: int | None = Field(None, ge=1, le=1 << 20, validation_alias="LIGHTBOX_MAX_BODIES_MB")
    """MiB that all request bodies which nginx holds may have together; beyond it 503, before the body is read. Bodies
    of 1 MB and more count with their declared length, a chunked one, which declares none, as `LIGHTBOX_MAX_BODY_MB`,
    or, where there is no room for that, as 2 MiB, which it may then have; those larger than 10 MB have half of it.
    Smaller ones are bounded by number. At least `LIGHTBOX_MAX_BODY_MB` counts. Without it a quarter of the memory that
    is free at start, at most half of what `TMPDIR` has free, at least twice `LIGHTBOX_MAX_BODY_MB`."""

    max_connections_per_address: int | None = Field(
        None, ge=1, le=65535, validation_alias="LIGHTBOX_MAX_CONNECTIONS_PER_ADDRESS"
    )
    """Connections of one address with a request in progress, its body's arrival included; beyond it 429. Without it no
    limit. Not behind a proxy or load balancer: all callers have its address. gRPC callers are not counted."""

    max_rate_per_address: int | None = Field(None, ge=1, le=100_000, validation_alias="LIGHTBOX_MAX_RATE_PER_ADDRESS")
    """Requests a second of one address, as many at once as are allowed in a second; beyond it 429. Without it no limit.
    Not behind a proxy or load balancer. gRPC callers are not counted."""

    @field_validator("kserve_grpc_port")
    @classmethod
    def _not_nginx_port(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value == info.data.get("port"):
            raise ValueError("expected another port than nginx's, SAGEMAKER_BIND_TO_PORT")
        return value
