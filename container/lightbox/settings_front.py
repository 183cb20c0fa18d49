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

    safe_port_range: Annotated[tuple[int, int] | None, BeforeValidator(parse_port_range)] = Field(
        None, validation_alias="SAGEMAKER_SAFE_PORT_RANGE"
    )
    """Ports for the model servers, as `low-high`: server i takes gRPC at low+2i and REST at low+2i+1.
    Without it gRPC is 9000 and REST 8501."""

    @field_validator("kserve_grpc_port")
    @classmethod
    def _not_nginx_port(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and value == info.data.get("port"):
            raise ValueError("expected another port than nginx's, SAGEMAKER_BIND_TO_PORT")
        return value
