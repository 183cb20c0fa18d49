"""``lightbox engines``: which engine answers each model, and how fast."""

from __future__ import annotations

import click

from lightbox.cli.setting_options import SettingsCommand, model_argument
from lightbox.cli.starting import look_at_engines
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.models_on_disk import plan_models, unpacked


@click.command("engines", cls=SettingsCommand, epilog="Example: lightbox engines ./models")
@model_argument
def command() -> int:
    """Compare engines for the newest version of each model."""
    with unpacked(load_settings()) as settings:
        return look_at_engines(plan_models(settings)[0].values(), settings, "--compare")
