"""``lightbox check``: a start without callers."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import click
from pydantic import BaseModel

from lightbox.base.control_characters import escape
from lightbox.base.errors import StartError
from lightbox.base.machine.environment import variable
from lightbox.base.settings import Settings, variable_names
from lightbox.base.settings_types import default_of, setting_metadata
from lightbox.cli.setting_options import SettingsCommand, model_argument
from lightbox.cli.starting import (
    StartRefused,
    checked_settings,
    engines_command,
    fixed_models,
    interruptible,
    prepared_supervisor,
)
from lightbox.features import callers, wants
from lightbox.images.resize_library import resize_line
from lightbox.model_files.checks import newest_folder, newest_signatures, reading_once
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.engines import AUTO, DEFAULT
from lightbox.model_runtime.formats import model_file
from lightbox.nginx import tls
from lightbox.nginx.installation import find_nginx
from lightbox.serving.settings_loading import load_settings, parts, spelling_hints
from lightbox.supervisor.starting.addresses import callers_line, listening, usual_ports
from lightbox.supervisor.starting.child_environment import child_environ
from lightbox.supervisor.starting.chosen_transports import transports_to_come
from lightbox.supervisor.starting.commands import model_server_program
from lightbox.supervisor.starting.models_on_disk import code_dirs, plan_models, shared_code_dirs
from lightbox.supervisor.starting.op_threads import threads_lines, with_op_threads
from lightbox.supervisor.starting.scaling_report import scaling_lines
from lightbox.supervisor.starting.start_checks import find_warnings
from lightbox.user_code.paths import find_code

MEANS_MORE_WHEN_SET = {"request_timeout", "request_memory_mb", "intra_op_parallelism"}


@click.command("check", cls=SettingsCommand, epilog="Example: lightbox check ./models --transport rest")
@model_argument
@click.option("--all", "show_all", is_flag=True, help="Print all settings, including those with default values.")
@click.option(
    "--settings",
    "settings_alone",
    is_flag=True,
    help="Print only the settings, as lines that a shell can source; start nothing.",
)
def command(show_all: bool, settings_alone: bool) -> int:
    """Run all start-up checks, and start without a port for callers until the default model answers.

    It also prints the settings that differ from their defaults, and the models and ports that a start would serve.
    It starts the model servers and gunicorn, not nginx and the fronts.
    """
    with checked_settings() as (given, settings, problems):
        for line in _setting_lines(given, defaults=show_all or settings_alone):
            print(line)
        try:
            if problems:
                raise StartRefused("\n".join(problems))
            warnings = 0 if settings_alone else _print_plan(settings)
            sys.stdout.flush()
            _try_start(settings, with_servers=not settings_alone)
        except StartError:
            if not settings_alone:
                print("\nverdict: a start would be refused", flush=True)
            raise
    if not settings_alone:
        print(f"\nverdict: a start would serve{f'; warnings: {warnings}' if warnings else ''}")
    return 0


def _try_start(settings: Settings, with_servers: bool) -> None:
    """Prepare a start; then start all but what callers reach, until the default model answers. Raises StartError."""
    settings = with_op_threads(settings, fixed_models(settings))
    with interruptible(), prepared_supervisor(settings, nullcontext()) as supervisor:
        if with_servers:
            asyncio.run(supervisor.try_start())


def _setting_lines(settings: Settings, defaults: bool) -> Iterator[str]:
    """Yield the settings as lines for a shell; defaults only with ``defaults``.

    A default is a comment if setting it explicitly has another effect: a request timeout also limits an inference.py,
    the requests' memory also limits nginx's bodies, and intra-op threads are no longer chosen.
    """
    unset = load_settings({})
    for part, field in [(owner, name) for owner in parts() for name in owner.model_fields]:
        value, default = (_text(getattr(of if part is Settings else of.of(part), field)) for of in (settings, unset))
        names, means_more = variable_names(field, part), field in MEANS_MORE_WHEN_SET
        is_set = any(variable(name, "").strip() for name in names)
        if not (defaults or (is_set and (means_more or value != default))):
            continue
        about = part.model_fields[field]
        unit = setting_metadata(about, "unit")
        line = f"{names[0]}={shlex.quote(value)}".replace("=''", "=")
        given = is_set or not means_more
        line = line if given else f"# {line}"
        yield f"{line}  # {f'{unit}, ' if unit else ''}default: {default_of(about).replace('`', '')}"


@reading_once()
def _print_plan(settings: Settings) -> int:
    """Return how many warnings are among it."""
    kind, program = model_server_program(settings)
    print(f"\nmodel server: {kind} ({program[0]})\nnginx: {find_nginx() if settings.nginx else 'none'}")
    fixed = fixed_models(settings)
    print("\n".join([*threads_lines(with_op_threads(settings, fixed), fixed), resize_line()]))
    needs = wants(settings)
    transports = transports_to_come(settings, needs.why_rest)
    print(f"transports: {', '.join(transports.names)}")
    for line in listening(settings, transports, usual_ports(settings), needs.ports):
        print(f"listening: {line}")
    print(callers_line(settings, needs.ports, callers(settings)))
    if identity := tls.identify(settings):
        print(identity)
    if not settings.has_fixed_models:
        print(f"models: loaded by {needs.loads_models} from {settings.model_dir}")
    else:
        models, default = plan_models(settings)
        for model in models.values():
            _print_model(model, model.name == default, settings)
        if len(models) > 1:
            _say(_share_line(len(models), settings))
    scalings = scaling_lines(settings)
    warnings = [f"warning: {warning}" for warning in spelling_hints() + find_warnings(settings, needs)]
    for line in (*map(str, scalings), *warnings):
        _say(line)
    return len(warnings) + sum(scaling.wrong for scaling in scalings)


def _share_line(models: int, settings: Settings) -> str:
    """Return how the models share turns and places."""
    each, most = settings.threads, settings.most_requests
    return (
        f"shares: each of {models} models has at most half of the {each} threads of each worker, and {most} of "
        f"{2 * most} requests in progress and waiting, beside those of a concurrency"
    )


def _say(line: str) -> None:
    """Print one line, whatever the names of a model hold."""
    print(escape(line))


def _print_model(model: ModelOnDisk, is_default: bool, settings: Settings) -> None:
    _say(f"model: {model.name} in {model.base_path}{' (default)' if is_default else ''}")
    for name, signature in sorted(newest_signatures(model).items()):
        takes, gives = (", ".join(map(str, tensors.values())) for tensors in (signature.inputs, signature.outputs))
        _say(f"  its signature {name}: {takes or 'nothing'} -> {gives}")
    folders = code_dirs(model, shared_code_dirs(settings))
    _say(f"  its code: {find_code(folders) or 'built-in handling'}")
    options = model_options(model, folders, settings)
    hidden = {"labels", "of_recipe", "recipe_source", "recipe_said"}
    set_apart = options.model_dump_json(exclude_defaults=True, exclude=hidden)
    _say(f"  its options: {'the defaults' if set_apart == '{}' else set_apart}")
    if options.labels:
        _say(f"  its labels: {len(options.labels)}, the first {options.labels[0]!r}")
    engine = options.engine or settings.engine or AUTO
    if engine not in (DEFAULT, AUTO):
        _say(f"  its engine: {engine}")
    elif engine == AUTO or model_file(newest_folder(model)):
        listing = subprocess.run(  # noqa: S603 - our own program
            engines_command(model, settings), env=child_environ(), capture_output=True, text=True, check=False
        )
        for line in (listing.stdout or listing.stderr).splitlines():
            _say(f"  its engine for {line}" if listing.stdout else f"  its engine: {line}")


def _text(value: object) -> str:
    """Return a setting's value as its variable has it."""
    if isinstance(value, BaseModel):
        return value.model_dump_json(exclude_unset=True) if value.model_fields_set else ""
    if isinstance(value, dict):
        return ",".join(f"{name}={path}" for name, path in value.items())
    if isinstance(value, tuple):
        return ("-" if value and isinstance(value[0], int) else ",").join(map(str, value))  # ports, or names
    return "" if value is None else str(value)
