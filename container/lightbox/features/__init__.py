"""The features, their selection for a start, and their combined additions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lightbox.base.settings import Settings
from lightbox.core.additions import Additions, ServedModels, StartNeeds
from lightbox.core.feature import Feature
from lightbox.core.start import Start
from lightbox.features.access import Access
from lightbox.features.deepstack import DeepStack
from lightbox.features.multi_model import MultiModel
from lightbox.features.open_inference import OpenInference
from lightbox.features.openapi import OpenApi
from lightbox.features.page import Page
from lightbox.features.sagemaker import SageMaker
from lightbox.features.sessions import Sessions
from lightbox.features.streams import Streams
from lightbox.features.tfs_api import TfsApi
from lightbox.features.tracing import Tracing
from lightbox.features.vertex_ai import VertexAi

_INDEPENDENT: Sequence[Feature] = (
    Sessions(),  # before the Open Inference Protocol's bodies, which belong to no session
    OpenInference(),
    MultiModel(),
    TfsApi(),
    DeepStack(),
    Streams(),
    Page(),
    OpenApi(),
    Tracing(),
    SageMaker(),
)
FEATURES: Sequence[Feature] = (
    *_INDEPENDENT,
    VertexAi(_INDEPENDENT),
    Access(_INDEPENDENT),
)
"""The last ones act on the paths of the others."""


def enabled(settings: Settings) -> list[Feature]:
    """Return the enabled features."""
    return [feature for feature in FEATURES if feature.enabled(settings)]


def wants(settings: Settings) -> StartNeeds:
    """Return the combined requirements of the enabled features."""
    on = enabled(settings)
    return StartNeeds(
        [port for feature in on for port in feature.ports(settings)],
        next((feature.why_rest for feature in on if feature.why_rest), None),
        [partial(feature.check, settings) for feature in on],
        [variable for feature in on for variable in feature.needs_nginx(settings)],
        next((feature.loads_models for feature in on if feature.loads_models), None),
    )


def callers(settings: Settings) -> str | None:
    """Return a feature's description of the admitted callers; None for everyone. Raises StartError."""
    return next((sentence for feature in enabled(settings) if (sentence := feature.callers(settings))), None)


def prepare(start: Start) -> Additions:
    """Prepare the features before the first process starts, and return their additions to the supervisor's work.

    Metrics of all features are shown, also of disabled ones.
    """
    settings, run_dir, planned = start.settings, start.run_dir.path, start.plan.models
    fixed = ServedModels(planned.keys, planned.values)
    on = enabled(settings)
    shown = {feature.name: feature.shown_at for feature in on if feature.shown_at}
    for feature in on:
        feature.prepare(start)
    return Additions(
        ports=wants(settings).ports,
        children=[spec for feature in on for spec in feature.children(start)],
        workers=sum(feature.workers(settings) for feature in on),
        nginx=[feature.nginx(start) for feature in on],
        probes={
            path: probe
            for feature in on
            for path, probe in feature.probes(settings).items()
            if path not in shown.values()
        },
        tasks=lambda: [task for feature in on for task in feature.tasks(start)],
        served=next((served for feature in on if (served := feature.served(run_dir))), fixed),
        shown=shown,
        direct=[path for feature in on for path in feature.direct],
        without_nginx=[feature.without_nginx for feature in FEATURES if feature.without_nginx],
        measure=lambda: {metric: value for each in FEATURES for metric, value in each.measure(run_dir).items()},
        authenticator=next(
            (authenticator for feature in on if (authenticator := feature.authenticator(settings))), None
        ),
        callers=callers(settings),
    )
