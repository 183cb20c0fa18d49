"""``lightbox tune``: arguments, the parts put together, and how it ends."""

from __future__ import annotations

import math
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import click

from lightbox.base.settings import Settings, variable_names
from lightbox.base.telemetry.logs import log
from lightbox.cli.setting_options import SettingsCommand, named_model_argument
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_runtime.cores import available_cores
from lightbox.nginx.installation import find_nginx
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.commands import model_server_program
from lightbox.supervisor.starting.models_on_disk import find_model, unpacked
from lightbox.supervisor.starting.op_threads import with_op_threads
from lightbox.tools.tune import report
from lightbox.tools.tune.candidates import PARAMETERS, single_changes
from lightbox.tools.tune.load import ImageUnreadable, image_to_send
from lightbox.tools.tune.search import Announce, Findings, Step, TooLittleTime, search
from lightbox.tools.tune.trials import Trial
from lightbox.tools.tune.try_setting import CannotServe, Request, open_measurer

LEAST_SECONDS = 10
"""In less nothing could be measured however quick the model is."""
LEAST_CLIENTS, MOST_CLIENTS = 8, 64
INTERRUPTED = 130


class TuneRefused(Exception):
    """Nothing can be measured; the message is one sentence."""


@click.command("tune", cls=SettingsCommand, epilog="Example: lightbox tune ./models --image photo.jpg --seconds 300")
@named_model_argument
@click.option("--image", type=click.Path(path_type=Path), help="Image to send; by default a generated one.")
@click.option(
    "--seconds",
    type=click.FloatRange(LEAST_SECONDS, 86400),
    metavar="N",
    default=120.0,
    show_default=True,
    help="Time limit for the run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as a JSON object.")
def command(name: str | None, image: Path | None, seconds: float, as_json: bool) -> int:
    """Find the best settings for a model and this machine.

    MODEL is a path, or the name of a model in LIGHTBOX_MODEL_DIR; by default the default model.
    """
    began = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        with unpacked(load_settings()) as settings:
            return _run(settings, name, image, seconds, as_json, began)
    except KeyboardInterrupt:
        log("interrupted: all started processes are stopped")
        return INTERRUPTED
    except (TuneRefused, ImageUnreadable) as error:
        log(str(error))
        return 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(settings: Settings, name: str | None, file: Path | None, limit: float, as_json: bool, began: float) -> int:
    find_nginx()
    kind, _ = model_server_program(settings)
    try:
        model = find_model(name, settings)
    except LookupError as error:
        raise TuneRefused(str(error)) from None
    body, image = image_to_send(file)
    clients = min(max(LEAST_CLIENTS, 4 * available_cores()), MOST_CLIENTS)
    baseline = "the present settings" if settings.model_fields_set.intersection(PARAMETERS) else "the defaults"
    about = report.Circumstances(model.name, image, available_cores(), kind, clients, baseline)
    _progress(f"starting {model.name} with {baseline}; {image}")

    def announce(step: Step, trial: Trial) -> None:
        _progress(report.progress(step, trial, time.monotonic() - began))

    try:
        findings = _measure(model, settings, Request(body, clients), limit - (time.monotonic() - began), announce)
    except TooLittleTime as error:
        needed = f"at least {math.ceil(limit + error.seconds)} for this model"
        raise TuneRefused(f"--seconds: expected {needed}, got {limit:g}") from None
    seconds = time.monotonic() - began
    as_text = report.text(findings, about, seconds, limit)
    print(report.as_json(findings, about, seconds) if as_json else as_text)
    return 0


def _measure(model: ModelOnDisk, settings: Settings, request: Request, seconds: float, announce: Announce) -> Findings:
    """Search with stacks that serve the one model; raise TuneRefused and TooLittleTime."""
    try:
        with open_measurer(environ_of_one_model(model, settings), request, seconds) as measurer:
            return search(measurer, single_changes(with_op_threads(settings, [model]), request.clients), announce)
    except CannotServe as error:
        raise TuneRefused(f"{model.name} cannot be served: {error}") from None


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def environ_of_one_model(model: ModelOnDisk, settings: Settings) -> dict[str, str]:
    """Return the environment that serves one model alone: the others need not be loaded."""
    values = {"default_model": model.name, "models": f"{model.name}={model.base_path}", "model_dir": settings.model_dir}
    return {variable_names(field)[0]: str(value) for field, value in values.items()}
