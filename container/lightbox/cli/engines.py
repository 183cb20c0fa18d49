"""``lightbox engines``: which engine answers each model, and how fast."""

from __future__ import annotations

import subprocess

import click

from lightbox.cli.setting_options import SettingsCommand, model_argument
from lightbox.cli.starting import engines_command
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.child_environment import child_environ
from lightbox.supervisor.starting.models_on_disk import plan_models, unpacked


@click.command("engines", cls=SettingsCommand, epilog="Example: lightbox engines ./models")
@model_argument
def command() -> int:
    """Compare engines for the newest version of each model."""
    code = 0
    with unpacked(load_settings()) as settings:
        for model in plan_models(settings)[0].values():
            print(f"model: {model.name}", flush=True)
            compare = engines_command(model, settings, "--compare")
            code = max(code, subprocess.run(compare, env=child_environ(), check=False).returncode)  # noqa: S603
    return code
