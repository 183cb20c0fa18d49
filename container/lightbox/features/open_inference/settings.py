"""The variables of the protocol."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lightbox.core.settings_types import PART


class OpenInferenceSettings(BaseModel):
    """The variables of the protocol."""

    model_config = PART

    kserve_grpc_port: int | None = Field(None, ge=1, le=65535, validation_alias="LIGHTBOX_KSERVE_GRPC_PORT")
    """Port of the Open Inference Protocol's gRPC service. Unset, that service is off. Its REST form is always on, at
    nginx's port."""

    kserve_reflection: bool = Field(False, validation_alias="LIGHTBOX_KSERVE_REFLECTION")
    """Enable gRPC server reflection, so that tools such as grpcurl can list the services and their messages."""

    max_grpc_mb: int | None = Field(
        None,
        ge=1,
        le=1 << 20,
        validation_alias="LIGHTBOX_MAX_GRPC_MB",
        json_schema_extra={"default": "twice `LIGHTBOX_MAX_BODY_MB`"},
    )
    """Limit in MiB for all gRPC messages together. A message counts from its first byte until it is answered, a
    compressed one with its decompressed size. Over the limit the largest message that is still arriving ends with
    UNAVAILABLE. The minimum, which is also the default, is twice `LIGHTBOX_MAX_BODY_MB`."""

    def grpc_bytes(self, max_body_mb: int) -> int:
        """Return the bytes that all gRPC messages may have together."""
        return max(self.max_grpc_mb or 0, 2 * max_body_mb) << 20
