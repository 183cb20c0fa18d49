"""The shares that settings and models give."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from lightbox.core.services import Services
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ServingPlan
from lightbox.serving.settings_loading import load_settings
from support.parameters import each


@each(
    ("environ", "names", "concurrency", "places", "keeps_turns", "most"),
    [
        ({}, "a", None, False, False, 40),
        ({}, "ab", None, True, False, 80),
        ({}, "a", 300, True, False, 40 + 300 + 32),
        ({"SAGEMAKER_GUNICORN_THREADS": "8"}, "a", None, False, True, 40),
        ({"SAGEMAKER_GUNICORN_WORKER_CLASS": "sync"}, "ab", None, True, True, 66),
    ],
)
def test_shares(
    environ: dict[str, str], names: str, concurrency: int | None, places: bool, keeps_turns: bool, most: int
) -> None:
    options = ModelOptions(concurrency=concurrency)
    models = {name: PlannedModel(name=name, base_path=Path("/m"), options=options) for name in names}
    plan = ServingPlan(models=models, default_model="a", model_servers=())
    settings = load_settings({"SAGEMAKER_GUNICORN_WORKERS": "1", **environ})
    pipeline = Mock(may_have_handlers=False)
    services = Services(settings, plan, Path("/nowhere"), pipeline, (), Mock())
    assert (services.model_names is not None) == places
    assert services.shares(1, 1).keeps_turns == keeps_turns
    assert plan.most_requests(settings) == most
