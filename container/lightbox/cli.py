"""The command line behind serve.sh: serve, check, engines, tune and try; what stops a start is told all at once."""

from __future__ import annotations

import asyncio
import importlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from pydantic import BaseModel

from lightbox.core.errors import StartError
from lightbox.core.settings import Settings, variable_names
from lightbox.core.settings_types import default_of, told
from lightbox.engines import DEFAULT
from lightbox.features import callers, enabled, prepare, wants
from lightbox.formats import model_file
from lightbox.images.resize_library import resize_line
from lightbox.machine.environment import variable
from lightbox.machine.memory import find_trim
from lightbox.model.checks import newest_folder, newest_signatures
from lightbox.model.layout import ModelOnDisk
from lightbox.model.options import load_options
from lightbox.processes import op_threads, tls
from lightbox.processes.commands import PYTHON, child_environ, kept_engine_cache, model_server_program
from lightbox.processes.models_on_disk import code_dirs, plan_models, shared_code_dirs
from lightbox.processes.nginx import find_nginx
from lightbox.processes.run_dir import RunDir
from lightbox.processes.start import Start
from lightbox.processes.start_checks import find_problems, find_scaling_lines, find_warnings
from lightbox.processes.startup import callers_line, listening, make_plan, usual_ports
from lightbox.processes.supervisor import STOP_SIGNALS, Supervisor
from lightbox.processes.wires import wires_to_come
from lightbox.settings_loading import SettingsError, load_settings, parts, spelling_hints
from lightbox.telemetry.logs import log, use_json
from lightbox.user_code.paths import find_code


class StartRefused(StartError):
    """Nothing can be started; the message holds a line for each problem."""


USAGE = """usage: serve.sh serve|check|engines|tune|try
  serve   start the model server, gunicorn and nginx in the foreground
  check   print what differs from the defaults and what would be served, try what a start does first, and exit;
          check --all prints all settings, check --settings only these, for a shell to read
  engines compare the engines for each model; engines --write keeps the result in a SavedModel's folder
  tune    find the best settings for a model and this machine; tune --help tells more
  try     print a model's answer for an image under each scaling: try MODEL --image photo.jpg; try --help tells more"""


MEANS_MORE_WHEN_SET = {"request_timeout", "request_memory_mb", "intra_op_parallelism"}

TOOLS = {
    "tune": "lightbox.tune.command",
    "try": "lightbox.tune.try_image",
    "model-server": "lightbox.model_server.main",
}
"""Commands of modules that a start of the service does not need."""


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    command, *options = arguments or [""]
    if command in ("help", "--help", "-h"):
        print(USAGE)
        return 0
    commands = {"serve": serve, "check": check, "engines": engines}
    may_have = {"serve": ([],), "check": ([], ["--all"], ["--settings"])}
    if command not in (*commands, *TOOLS) or options not in may_have.get(command, (options,)):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        if command in TOOLS:
            return int(importlib.import_module(TOOLS[command]).main(options))
        return commands[command](options)
    except StartError as error:
        log("cannot start:")
        print(error, file=sys.stderr)
        return 1


def serve(options: list[str]) -> int:
    """Serve until SIGTERM or SIGINT. There are no options."""
    settings, problems = _judged()
    if problems:
        raise StartRefused("\n".join(problems))
    use_json(settings.log_format == "json")
    for warning in spelling_hints() + find_warnings(settings, wants(settings)):
        log(f"warning: {warning}")
    for line in find_scaling_lines(settings):
        log(str(line))
    threads = op_threads.choose(settings, _served(settings))
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until the supervisor minds them
    with _prepared(threads.applied(settings), _stoppable()) as supervisor:
        log(f"{threads}; {resize_line()}")
        find_trim()()  # of the graphs that were looked at
        return asyncio.run(supervisor.run())


@contextmanager
def _prepared(settings: Settings, while_planning: AbstractContextManager[None]) -> Iterator[Supervisor]:
    """Do what a start does before its first child: make the run directory, plan, bind the port. Raises StartError."""
    with RunDir() as run_dir:
        with while_planning:
            plan = make_plan(settings, run_dir, wants(settings))
        start = Start(settings, plan, run_dir, [feature.name for feature in enabled(settings)])
        yield Supervisor(start, prepare(start))


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


def check(options: list[str]) -> int:
    """Print the settings that are no defaults, then the models; then try what ``serve`` does before its children.

    With ``--all`` all settings are printed, with ``--settings`` these alone.
    """
    settings, problems = _judged()
    for line in _setting_lines(settings, defaults=bool(options)):
        print(line)
    is_told = options != ["--settings"]
    try:
        if problems:
            raise StartRefused("\n".join(problems))
        warnings = _print_plan(settings) if is_told else 0
        sys.stdout.flush()
        _try_start(settings)
    except StartError:
        if is_told:
            print("\nverdict: a start would be refused", flush=True)
        raise
    if is_told:
        print(f"\nverdict: a start would serve{f'; warnings: {warnings}' if warnings else ''}")
    return 0


def _try_start(settings: Settings) -> None:
    """Do what a start does before its first child. Raises StartError."""
    before = {number: signal.signal(number, lambda *_: sys.exit(0)) for number in STOP_SIGNALS}
    try:
        with _prepared(settings, nullcontext()) as supervisor:
            asyncio.run(supervisor.try_code())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _setting_lines(settings: Settings, defaults: bool) -> Iterator[str]:
    """Yield lines that a shell reads as these settings; those that are as they would be unset only with ``defaults``.

    A default is a comment where it means something else when it is set: the request's timeout would bound an
    inference.py as well, the requests' memory what nginx holds, and threads for an operation would not be chosen.
    """
    unset = load_settings({})
    for part, field in [(owner, name) for owner in parts() for name in owner.model_fields]:
        value, default = (_text(getattr(of if part is Settings else of.of(part), field)) for of in (settings, unset))
        names, means_more = variable_names(field, part), field in MEANS_MORE_WHEN_SET
        is_set = any(variable(name, "").strip() for name in names)
        if not (defaults or (is_set and (means_more or value != default))):
            continue
        about = part.model_fields[field]
        unit = told(about, "unit")
        line = f"{names[0]}={shlex.quote(value)}".replace("=''", "=")
        given = is_set or not means_more
        line = line if given else f"# {line}"
        yield f"{line}  # {f'{unit}, ' if unit else ''}default: {default_of(about).replace('`', '')}"


def _print_plan(settings: Settings) -> int:
    """Return how many warnings are among it."""
    kind, program = model_server_program(settings)
    print(f"\nmodel server: {kind} ({program[0]})\nnginx: {find_nginx()}")
    print(op_threads.choose(settings, _served(settings)))
    print(resize_line())
    wanted = wants(settings)
    wires = wires_to_come(settings, wanted.why_rest_port)
    print(f"wires: {', '.join(wires.names)}")
    for line in listening(settings, wires, usual_ports(settings), wanted.ports):
        print(f"listening: {line}")
    print(callers_line(settings, wanted.ports, callers(settings)))
    if identity := tls.identify(settings):
        print(identity)
    if not settings.has_fixed_models:
        print(f"models: loaded by POST /models from {settings.model_dir}")
    else:
        models, default = plan_models(settings)
        for model in models.values():
            _print_model(model, model.name == default, settings)
    scalings = find_scaling_lines(settings)
    warnings = [f"warning: {warning}" for warning in spelling_hints() + find_warnings(settings, wanted)]
    print(*scalings, *warnings, sep="\n")
    return len(warnings) + sum(scaling.wrong for scaling in scalings)


def _served(settings: Settings) -> Collection[ModelOnDisk]:
    """Return the models that are loaded at the start."""
    return plan_models(settings)[0].values() if settings.has_fixed_models else ()


def _judged() -> tuple[Settings, list[str]]:
    """Return the settings, as far as they can be used, and every problem with them and with what they name."""
    try:
        settings = load_settings()
    except SettingsError as error:
        return error.usable, error.problems + find_problems(error.usable, error.wrong, wants(error.usable))
    return settings, find_problems(settings, wants=wants(settings))


def _print_model(model: ModelOnDisk, is_default: bool, settings: Settings) -> None:
    print(f"model: {model.name} in {model.base_path}{' (default)' if is_default else ''}")
    for name, signature in sorted(newest_signatures(model).items()):
        takes, gives = (", ".join(map(str, tensors.values())) for tensors in (signature.inputs, signature.outputs))
        print(f"  its signature {name}: {takes or 'nothing'} -> {gives}")
    folders = code_dirs(model, shared_code_dirs(settings))
    print(f"  its code: {find_code(folders) or 'built-in handling'}")
    options = load_options(folders, settings)
    set_apart = options.model_dump_json(exclude_defaults=True, exclude={"labels"})
    print(f"  its options: {'the defaults' if set_apart == '{}' else set_apart}")
    if options.labels:
        print(f"  its labels: {len(options.labels)}, the first {options.labels[0]!r}")
    if {options.engine, settings.engine} - {None, DEFAULT} or model_file(newest_folder(model)):
        told = subprocess.run(  # noqa: S603 - our own program
            _engines_command(model, settings), env=child_environ(), capture_output=True, text=True, check=False
        )
        for line in (told.stdout or told.stderr).splitlines():
            print(f"  its engine for {line}" if told.stdout else f"  its engine: {line}")


def _engines_command(model: ModelOnDisk, settings: Settings, *options: str) -> list[str]:
    precision = load_options(code_dirs(model, shared_code_dirs(settings)), settings).precision
    cache = [f"--cache={folder}"] if (folder := kept_engine_cache()) is not None else []
    command = [*PYTHON, "lightbox.engines", f"--precision={precision}", *cache, *options]
    return [*command, str(newest_folder(model))]


def engines(options: list[str]) -> int:
    """Compare the engines for the newest version of each model; ``--write`` keeps what is found of SavedModels."""
    if options not in ([], ["--write"]):
        print(f"{USAGE}\n\nengines takes the one option --write", file=sys.stderr)
        return 2
    settings = load_settings()
    code = 0
    for model in plan_models(settings)[0].values():
        print(f"model: {model.name}", flush=True)
        command = _engines_command(model, settings, "--compare", *options)
        code = max(code, subprocess.run(command, env=child_environ(), check=False).returncode)  # noqa: S603
    return code


def _text(value: object) -> str:
    """Return a setting's value as its variable has it."""
    if isinstance(value, BaseModel):
        return value.model_dump_json(exclude_unset=True) if value.model_fields_set else ""
    if isinstance(value, tuple):
        return ("-" if isinstance(value[0], int) else ",").join(map(str, value))  # ports, or names
    return "" if value is None else str(value)
