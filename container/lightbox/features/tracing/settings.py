"""The variables of traces; OpenTelemetry reads its others itself."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lightbox.core.settings_types import PART

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class TracingSettings(BaseModel):
    """The variables of traces; OpenTelemetry reads its others itself."""

    model_config = PART

    otlp_endpoint: str | None = Field(None, validation_alias=ENDPOINT)
    """URL to send OpenTelemetry traces to, as OTLP over HTTP. Needs the packages of `requirements/tracing.lock`.
    OpenTelemetry's other variables (`OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, ...) work
    as well."""
