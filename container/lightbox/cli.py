"""The command line behind serve.sh: serve, check, engines, tune and try; what stops a start is told all at once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from lightbox.errors import StartError
from lightbox.model.checks import newest_folder, newest_signatures, option_problems, unusable_versions
from lightbox.model.layout import ModelOnDisk, folders_without_model
from lightbox.model.options import load_options
from lightbox.model.scaling_report import ScalingLine, scaling_lines
from lightbox.processes.commands import PYTHON, child_environ, model_server_program
from lightbox.processes.nginx import find_nginx
from lightbox.processes.run_dir import RunDir
from lightbox.processes.startup import (
    check_front_port,
    check_port,
    check_port_range,
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
from lightbox.settings_loading import SettingsError, load_settings, spelling_hints, variable_names
from lightbox.telemetry.logs import log, use_json
from lightbox.telemetry.tracing import check_tracing
from lightbox.user_code.paths import find_code


class StartRefused(StartError):
    """Nothing can be started; the message holds a line for each problem."""


def find_problems(settings: Settings, wrong: Collection[str] = ()) -> list[str]:
    """Return a sentence for each thing that a start with these settings would stumble over.

    ``wrong`` names the variables whose values were refused; what hangs on them is not judged.
    """
    problems: list[str] = []
    if "SAGEMAKER_BIND_TO_PORT" not in wrong:
        with _noted_in(problems):
            check_port(settings)
    for check in (check_front_port, check_port_range):
        with _noted_in(problems):
            check(settings)
    return list(dict.fromkeys(problems + find_lasting_problems(settings, wrong)))


def find_lasting_problems(settings: Settings, wrong: Collection[str] = ()) -> list[str]:
    """Return what ``find_problems`` does, without ports: who looks at a running Lightbox finds these taken."""
    problems: list[str] = []
    with _noted_in(problems):
        model_server_program(settings)
    with _noted_in(problems):
        find_nginx()
    if not settings.multi_model and not {"LIGHTBOX_MODEL_DIR", "SAGEMAKER_MULTI_MODEL"} & set(wrong):
        with _noted_in(problems):
            models, default = plan_models(settings)
            problems += _problems_of(models.values(), default, settings)
    return list(dict.fromkeys(problems))


def find_warnings(settings: Settings) -> list[str]:
    """Return a sentence for each folder that is taken for no model, and each setting that a model cannot follow.

    The default model follows them all, or the start is refused. A variable is for all models and may be meant for some:
    requests to the others say so themselves.
    """
    if settings.multi_model:
        return []
    models, default = plan_models(settings)
    passed = [
        f"LIGHTBOX_MODEL_DIR: {folder} is not a model: none of its numbered folders contains saved_model.pb"
        for folder in folders_without_model(settings.model_dir)
    ]
    others = (model for model in models.values() if model.name != default)
    return passed + [problem for model in others for own, problem in _misfits(model, settings) if not own]


def find_scaling_lines(settings: Settings) -> list[ScalingLine]:
    """Return a line for each model that takes pixels as floating-point numbers; of later models none."""
    if settings.multi_model:
        return []
    shared = shared_code_dirs(settings)
    return scaling_lines(((model, code_dirs(model, shared)) for model in plan_models(settings)[0].values()), settings)


def _problems_of(models: Iterable[ModelOnDisk], default: str, settings: Settings) -> list[str]:
    problems: list[str] = []
    for model in models:
        problems += [f"LIGHTBOX_MODEL_DIR: {problem}" for problem in unusable_versions(model)]
        if settings.universal_bucket:  # what is downloaded later may complete a model's own code
            continue
        with _noted_in(problems):
            problems += [misfit for own, misfit in _misfits(model, settings) if own or model.name == default]
    return problems


def _misfits(model: ModelOnDisk, settings: Settings) -> Iterator[tuple[bool, str]]:
    return option_problems(model, code_dirs(model, shared_code_dirs(settings)), settings)


@contextmanager
def _noted_in(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except StartError as error:
        problems += str(error).splitlines()


USAGE = """usage: serve.sh serve|check|engines|tune|try
  serve   start the model server, gunicorn and nginx in the foreground
  check   print the effective settings and what would be served, and exit
  engines compare OpenVINO with TensorFlow for each model; engines --write keeps the result in the model's folder
  tune    find the best settings for a model and this machine; tune --help tells more
  try     print a model's answer for an image under each scaling: try MODEL --image photo.jpg; try --help tells more"""


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    commands: dict[str, Callable[[], int]] = {"serve": serve, "check": check}
    command, *options = arguments or [""]
    if command in ("help", "--help", "-h"):
        print(USAGE)
        return 0
    with_options = {"tune": tune, "engines": engines, "try": try_image}
    if command not in with_options and (options or command not in commands):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return with_options[command](options) if command in with_options else commands[command]()
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
    for warning in spelling_hints() + find_warnings(settings):
        log(f"warning: {warning}")
    for line in find_scaling_lines(settings):
        log(str(line))
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
    else:
        models, default = plan_models(settings)
        for model in models.values():
            _print_model(model, model.name == default, settings)
    for scaling in find_scaling_lines(settings):
        print(scaling)
    for warning in spelling_hints() + find_warnings(settings):
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
    options = load_options(folders, settings)
    print(f"  its options: {options.model_dump_json(exclude_none=True)}")
    if {options.engine, settings.engine} & {"auto", "openvino"}:
        told = subprocess.run(  # noqa: S603 - our own program
            _engines_command([model], settings), env=child_environ(), capture_output=True, text=True, check=False
        )
        for line in (told.stdout or told.stderr).splitlines():
            print(f"  its engine for {line}" if told.stdout else f"  its engine: {line}")


def _engines_command(models: Iterable[ModelOnDisk], settings: Settings, *options: str) -> list[str]:
    folders = [str(newest_folder(model)) for model in models]
    cache = [f"--cache={settings.engine_cache_dir}"] if settings.engine_cache_dir is not None else []
    return [*PYTHON, "model_server.engines", f"--precision={settings.precision}", *cache, *options, *folders]


def engines(options: list[str]) -> int:
    """Compare OpenVINO with TensorFlow for the newest version of each model; ``--write`` keeps what is found."""
    if options not in ([], ["--write"]):
        print(f"{USAGE}\n\nengines takes the one option --write", file=sys.stderr)
        return 2
    settings = load_settings()
    code = 0
    for model in plan_models(settings)[0].values():
        print(f"model: {model.name}", flush=True)
        command = _engines_command([model], settings, "--compare", *options)
        code = max(code, subprocess.run(command, env=child_environ(), check=False).returncode)  # noqa: S603
    return code


def tune(options: list[str]) -> int:
    """Find the best settings; its imports would only make a start of the service longer."""
    from tune.command import tune as find_best

    return find_best(options)


def try_image(options: list[str]) -> int:
    """Compare scalings; its imports would only make a start of the service longer."""
    from tune.trying import try_image as compare

    return compare(options)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
