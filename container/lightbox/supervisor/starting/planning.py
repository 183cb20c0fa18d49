"""The plan of a start: its models with their options and code, its transports and addresses."""

from __future__ import annotations

from lightbox.base.run_dir import RunDir
from lightbox.base.settings import Settings
from lightbox.core.additions import NO_NEEDS, StartNeeds
from lightbox.model.plan import ServingPlan
from lightbox.model_files.checks import reading_once
from lightbox.supervisor.starting.addresses import choose_addresses
from lightbox.supervisor.starting.chosen_transports import planned_transports
from lightbox.supervisor.starting.models_on_disk import plan_models, planned_model, shared_code_dirs
from lightbox.supervisor.starting.option_checks import fitting_options
from lightbox.user_code.paths import importable
from lightbox.user_code.s3 import download_universal_code


@reading_once()
def make_plan(settings: Settings, run_dir: RunDir, wants: StartNeeds = NO_NEEDS) -> ServingPlan:
    """Find the models, read their options, choose addresses.

    Raises ModelLayoutError, ModelOptionsError and UserCodeError, each with one sentence.
    """
    models, default = plan_models(settings) if settings.has_fixed_models else ({}, None)
    shared = shared_code_dirs(settings)
    folder = run_dir.path / "universal_code"
    if downloaded := download_universal_code(settings.universal_bucket, settings.universal_prefix, folder, shared):
        shared = (downloaded,)
    transports = planned_transports(settings, models.values(), shared, wants.why_rest)
    folder = run_dir.path / "models"
    planned = [planned_model(model, folder, settings, shared, fitting_options) for model in models.values()]
    return ServingPlan(
        models={model.name: model for model in planned},
        default_model=default,
        model_servers=choose_addresses(settings, run_dir, transports, wants.ports),
        transports=transports,
        shared_code_dirs=importable(shared, settings) if settings.has_fixed_models else shared,
    )
