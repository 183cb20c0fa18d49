"""The variable of TensorFlow Serving's APIs."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lightbox.core.settings_types import PART


class TfsApiSettings(BaseModel):
    """The variable of TensorFlow Serving's APIs."""

    model_config = PART

    tfs_api: bool = Field(False, validation_alias="LIGHTBOX_TFS_API")
    """Serve TensorFlow Serving's own APIs to callers: REST below `/v1/` at nginx's port, gRPC at
    `LIGHTBOX_KSERVE_GRPC_PORT` where that is set. Opens the model server's REST port inside the container."""
