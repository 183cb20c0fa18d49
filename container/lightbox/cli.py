"""The command line behind serve.sh: ``serve`` and ``check``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from lightbox.model_options import load_options
from lightbox.processes.commands import model_server_program
from lightbox.processes.nginx import find_nginx
from lightbox.processes.refusals import REFUSALS, StartRefused, find_problems
from lightbox.processes.run_dir import RunDir
from lightbox.processes.startup import code_dirs, make_plan, plan_models
from lightbox.processes.supervisor import Supervisor
from lightbox.settings import Settings
from lightbox.settings_loading import SettingsError, load_settings, variable_names
from lightbox.telemetry.log_lines import say, use_json
from lightbox.telemetry.tracing import check_tracing
from lightbox.user_code.places import find_code

USAGE = """usage: serve.sh serve|check
  serve   start the model server, gunicorn and nginx in the foreground
  check   print the effective settings and what would be served, and exit"""


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    commands: dict[str, Callable[[], int]] = {"serve": serve, "check": check}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return commands[arguments[0]]()
    except REFUSALS as error:
        say("cannot start:")
        print(error, file=sys.stderr)
        return 1


def serve() -> int:
    """Serve until SIGTERM or SIGINT."""
    try:
        settings = load_settings()
        problems = find_problems(settings)
    except SettingsError as error:
        problems = error.problems + find_problems(error.usable, error.wrong)
    if problems:
        raise StartRefused("\n".join(problems))
    use_json(settings.log_format == "json")
    check_tracing(settings)
    run_dir = RunDir()
    try:
        plan = make_plan(settings, run_dir)
        return asyncio.run(Supervisor(settings, plan, run_dir).run())
    finally:
        run_dir.remove()


def check() -> int:
    """Print every setting with its variable, then the models."""
    settings = load_settings()
    for field in Settings.model_fields:
        value = getattr(settings, field)
        print(f"{variable_names(field)[0]}={'' if value is None else _text(value)}")
    kind, program = model_server_program(settings)
    print(f"\nmodel server: {kind} ({program[0]})\nnginx: {find_nginx()}")
    models, default = plan_models(settings)
    for model in models.values():
        print(f"model: {model.name} in {model.base_path}{' (default)' if model.name == default else ''}")
        folders = code_dirs(model, settings.model_dir / "code")
        print(f"  its code: {find_code(folders) or 'built-in handling'}")
        print(f"  its options: {load_options(folders, settings).model_dump_json(exclude_none=True)}")
    return 0


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
