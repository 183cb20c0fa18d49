"""The variables of sessions."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, Field

from lightbox.core.settings_types import PART


class SessionSettings(BaseModel):
    """The variables of sessions."""

    model_config = PART

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

    sessions_memory_mb: int | None = Field(
        None,
        ge=1,
        le=1 << 20,
        validation_alias="LIGHTBOX_SESSIONS_MEMORY_MB",
        json_schema_extra={"default": "a quarter of `LIGHTBOX_REQUEST_MEMORY_MB`"},
    )
    """Limit in MiB for the images of all sessions, at 4 bytes a pixel. It is a part of `LIGHTBOX_REQUEST_MEMORY_MB`:
    requests have the rest. An image that does not fit gets 503, one that can never fit 413. The images are in
    `/dev/shm` if that has so much space free at start, else in `TMPDIR`."""
