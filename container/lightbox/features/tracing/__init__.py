"""OpenTelemetry traces: a span for each request and each of its stages, below the caller's trace.

OpenTelemetry is imported only if an endpoint is set: its packages are an extra.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from lightbox.base.telemetry.logs import Observer

PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class TracingSettings(BaseModel):
    """The variables of traces; OpenTelemetry reads its others itself."""

    model_config = PART

    otlp_endpoint: str | None = setting("Traces", ENDPOINT)
    """URL of an OTLP/HTTP receiver for OpenTelemetry [traces](observability.md#traces)."""


class TracingMissing(StartError):
    """An endpoint is set and the packages are not installed; the message says what to do."""


class Tracing(Feature):
    """Observes requests, and makes their contexts."""

    name = "tracing"
    settings = TracingSettings

    @override
    def enabled(self, settings: Settings) -> bool:
        return settings.of(TracingSettings).otlp_endpoint is not None

    @override
    def check(self, settings: Settings) -> None:
        if not all(map(_installed, PACKAGES)):
            raise TracingMissing(
                f"{ENDPOINT} is set, but the OpenTelemetry packages are not installed: "
                "install lightbox-serve[tracing] or requirements/tracing.lock, or unset it"
            )

    @override
    def observers(self) -> Iterable[Observer]:
        from lightbox.features.tracing.spans import Spans

        yield Spans()


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False
