"""The features, and which of them a start has."""

from __future__ import annotations

from collections.abc import Sequence

from lightbox.core.settings import Settings
from lightbox.feature import Feature
from lightbox.features.multi_model import MultiModel
from lightbox.features.open_inference import OpenInference
from lightbox.features.openapi import OpenApi
from lightbox.features.page import Page
from lightbox.features.sessions import Sessions
from lightbox.features.streams import Streams
from lightbox.features.tfs_api import TfsApi
from lightbox.features.tracing import Tracing

FEATURES: Sequence[Feature] = (
    Sessions(),  # stands before the Open Inference Protocol's bodies, which belong to no session
    OpenInference(),
    MultiModel(),
    TfsApi(),
    Streams(),
    Page(),
    OpenApi(),
    Tracing(),
)


def enabled(settings: Settings) -> list[Feature]:
    """Return the features that the settings turn on."""
    return [feature for feature in FEATURES if feature.enabled(settings)]
