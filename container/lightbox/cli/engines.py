"""``lightbox engines``: which engine answers each model, and how fast."""

from __future__ import annotations

import subprocess

import click

from lightbox.cli.options import SettingsCommand, model_argument
from lightbox.core.settings import Settings
from lightbox.model.checks import newest_folder
from lightbox.model.layout import ModelOnDisk
from lightbox.model.options import load_options
from lightbox.processes.commands import PYTHON, child_environ, kept_engine_cache
from lightbox.processes.models_on_disk import code_dirs, plan_models, shared_code_dirs, unpacked
from lightbox.settings_loading import load_settings


@click.command("engines", cls=SettingsCommand, epilog="Example: lightbox engines ./models")
@model_argument
@click.option("--write", is_flag=True, help="Keep what is found in the folder of each SavedModel, for later starts.")
def command(write: bool) -> int:
    """Compare engines for the newest version of each model."""
    options, code = (["--write"] if write else []), 0
    with unpacked(load_settings()) as settings:
        for model in plan_models(settings)[0].values():
            print(f"model: {model.name}", flush=True)
            compare = engines_command(model, settings, "--compare", *options)
            code = max(code, subprocess.run(compare, env=child_environ(), check=False).returncode)  # noqa: S603
    return code


def engines_command(model: ModelOnDisk, settings: Settings, *options: str) -> list[str]:
    """Return the command that looks at the engines for a model's newest version."""
    precision = load_options(code_dirs(model, shared_code_dirs(settings)), settings).precision
    cache = [f"--cache={folder}"] if (folder := kept_engine_cache()) is not None else []
    command = [*PYTHON, "lightbox.engines", f"--precision={precision}", *cache, *options]
    return [*command, str(newest_folder(model))]
