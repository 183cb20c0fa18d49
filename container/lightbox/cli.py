"""The command line behind serve.sh: ``serve`` and ``check``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from lightbox.model_layout import ModelLayoutError
from lightbox.model_options import ModelOptionsError
from lightbox.processes.commands import ModelServerMissing, model_server_program
from lightbox.processes.nginx import NginxMissing, find_nginx
from lightbox.processes.run_dir import RunDir, RunDirError
from lightbox.processes.startup import PortTaken, check_port, code_dirs, make_plan, plan_models, unloadable_versions
from lightbox.processes.supervisor import Supervisor
from lightbox.settings import Settings
from lightbox.settings_loading import SettingsError, load_settings, variable_names
from lightbox.telemetry.log_lines import say, use_json
from lightbox.telemetry.tracing import TracingMissing, check_tracing
from lightbox.user_code.errors import UserCodeError
from lightbox.user_code.places import find_code

USAGE = """usage: serve.sh serve|check
  serve   start the model server, gunicorn and nginx in the foreground
  check   print the effective settings and what would be served, and exit"""

REFUSALS = (
    SettingsError,
    ModelLayoutError,
    ModelOptionsError,
    ModelServerMissing,
    NginxMissing,
    PortTaken,
    RunDirError,
    TracingMissing,
    UserCodeError,
)
"""What stops a start with sentences for the operator instead of a traceback."""


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    commands: dict[str, Callable[[Settings], int]] = {"serve": serve, "check": check}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return commands[arguments[0]](load_settings())
    except REFUSALS as error:
        say("cannot start:")
        for problem in str(error).splitlines():
            print(problem, file=sys.stderr)
        return 1


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT."""
    use_json(settings.log_format == "json")
    check_tracing(settings)
    check_port(settings)
    run_dir = RunDir()
    try:
        plan = make_plan(settings, run_dir)
        problems = unloadable_versions(plan)
        if problems:
            raise ModelLayoutError("\n".join(problems))
        return asyncio.run(Supervisor(settings, plan, run_dir).run())
    finally:
        run_dir.remove()


def check(settings: Settings) -> int:
    """Print every setting with its variable, then the models."""
    for field in Settings.model_fields:
        value = getattr(settings, field)
        print(f"{variable_names(field)[0]}={'' if value is None else _text(value)}")
    kind, program = model_server_program(settings)
    print(f"\nmodel server: {kind} ({program[0]})\nnginx: {find_nginx()}")
    models, default = plan_models(settings)
    for model in models.values():
        print(f"model: {model.name} in {model.base_path}{' (default)' if model.name == default else ''}")
        print(f"  its code: {find_code(code_dirs(model, settings.model_dir)) or 'built-in handling'}")
    return 0


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
