"""The command line behind serve.sh: ``serve``, ``check`` and ``tune``."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from lightbox.errors import StartError
from lightbox.model.checks import newest_signatures
from lightbox.model.layout import ModelOnDisk
from lightbox.model.options import load_options
from lightbox.processes.commands import model_server_program
from lightbox.processes.nginx import find_nginx
from lightbox.processes.run_dir import RunDir
from lightbox.processes.start_checks import StartRefused, find_lasting_problems, find_problems, find_warnings
from lightbox.processes.startup import (
    code_dirs,
    listening,
    make_plan,
    plan_models,
    shared_code_dirs,
    usual_ports,
    wires_to_come,
)
from lightbox.processes.supervisor import STOP_SIGNALS, Supervisor
from lightbox.settings import Settings
from lightbox.settings_loading import SettingsError, load_settings, variable_names
from lightbox.telemetry.logs import log, use_json
from lightbox.telemetry.tracing import check_tracing
from lightbox.user_code.paths import find_code

USAGE = """usage: serve.sh serve|check|tune
  serve   start the model server, gunicorn and nginx in the foreground
  check   print the effective settings and what would be served, and exit
  tune    find the best settings for a model and this machine; tune --help tells more"""


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    commands: dict[str, Callable[[], int]] = {"serve": serve, "check": check}
    command, *options = arguments or [""]
    if command != "tune" and (options or command not in commands):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return tune(options) if command == "tune" else commands[command]()
    except StartError as error:
        log("cannot start:")
        print(error, file=sys.stderr)
        return 1


def serve() -> int:
    """Serve until SIGTERM or SIGINT."""
    settings, problems = _judged(find_problems)
    if problems:
        raise StartRefused("\n".join(problems))
    use_json(settings.log_format == "json")
    check_tracing(settings)
    for warning in find_warnings(settings):
        log(f"warning: {warning}")
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until the supervisor minds them
    with RunDir() as run_dir:
        with _stoppable():
            plan = make_plan(settings, run_dir)
        return asyncio.run(Supervisor(settings, plan, run_dir).run())


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a signal end what may take long, a download say, in a way that cleans up."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def check() -> int:
    """Print every setting with its variable, then the models; then, as ``serve`` would, what stands in the way."""
    settings, problems = _judged(find_lasting_problems)
    for field in Settings.model_fields:
        value = getattr(settings, field)
        print(f"{variable_names(field)[0]}={'' if value is None else _text(value)}")
    if problems:
        raise StartRefused("\n".join(problems))
    check_tracing(settings)
    kind, program = model_server_program(settings)
    print(f"\nmodel server: {kind} ({program[0]})\nnginx: {find_nginx()}")
    wires = wires_to_come(settings)
    print(f"wires: {', '.join(wires.names)}")
    for line in listening(settings, wires, usual_ports(settings)):
        print(f"listening: {line}")
    if settings.multi_model:
        print(f"models: loaded by POST /models from {settings.model_dir}")
        return 0
    models, default = plan_models(settings)
    for model in models.values():
        _print_model(model, model.name == default, settings)
    for warning in find_warnings(settings):
        print(f"warning: {warning}")
    return 0


def _judged(find: Callable[[Settings, Collection[str]], list[str]]) -> tuple[Settings, list[str]]:
    """Return the settings, as far as they can be used, and every problem with them and with what they name."""
    try:
        settings = load_settings()
    except SettingsError as error:
        return error.usable, error.problems + find(error.usable, error.wrong)
    return settings, find(settings, ())


def _print_model(model: ModelOnDisk, is_default: bool, settings: Settings) -> None:
    print(f"model: {model.name} in {model.base_path}{' (default)' if is_default else ''}")
    for name, signature in sorted(newest_signatures(model).items()):
        takes, gives = (", ".join(map(str, tensors.values())) for tensors in (signature.inputs, signature.outputs))
        print(f"  its signature {name}: {takes or 'nothing'} -> {gives}")
    folders = code_dirs(model, shared_code_dirs(settings))
    print(f"  its code: {find_code(folders) or 'built-in handling'}")
    print(f"  its options: {load_options(folders, settings).model_dump_json(exclude_none=True)}")


def tune(options: list[str]) -> int:
    """Find the best settings; its imports would only make a start of the service longer."""
    from tune.command import tune as find_best

    return find_best(options)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
