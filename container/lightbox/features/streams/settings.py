"""The variables of streams."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lightbox.core.settings_types import PART


class StreamSettings(BaseModel):
    """The variables of streams."""

    model_config = PART

    streams: bool = Field(False, validation_alias="LIGHTBOX_STREAMS")
    """Serve streams of frames, WebSockets at `/invocations-bidirectional-stream` of nginx's port. If it is off, the
    route is 404."""

    max_streams: int = Field(1000, ge=1, le=1500, validation_alias="LIGHTBOX_MAX_STREAMS")
    """Limit for open streams. Over it an opening gets 503. Their frames count as requests, while they are in
    progress."""
