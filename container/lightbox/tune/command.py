"""``serve.sh tune``: arguments, the parts put together, and how it ends."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from lightbox.core.settings import Settings, variable_names
from lightbox.machine.cores import available_cores
from lightbox.model.layout import ModelOnDisk
from lightbox.processes import op_threads
from lightbox.processes.commands import model_server_program
from lightbox.processes.models_on_disk import plan_models
from lightbox.processes.nginx import find_nginx
from lightbox.settings_loading import load_settings
from lightbox.telemetry.logs import log
from lightbox.tune import report
from lightbox.tune.candidates import PARAMETERS, single_changes
from lightbox.tune.load import PictureUnreadable, picture
from lightbox.tune.search import Announce, Findings, Step, TooLittleTime, search
from lightbox.tune.trials import Trial
from lightbox.tune.try_setting import CannotServe, Request, open_measurer

LEAST_SECONDS = 10
"""In less nothing could be measured however quick the model is."""
LEAST_CLIENTS, MOST_CLIENTS = 8, 64
INTERRUPTED = 130


class TuneRefused(Exception):
    """Nothing can be measured; the message is one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Measure, print the best settings and return the exit code; raise what ``serve`` raises for wrong settings."""
    began = time.monotonic()
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        return _run(options, began)
    except KeyboardInterrupt:
        log("interrupted: all started processes are stopped")
        return INTERRUPTED
    except (TuneRefused, PictureUnreadable) as error:
        log(str(error))
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "serve.sh tune", description="Find the best settings for a model and this machine."
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a model in LIGHTBOX_MODEL_DIR; else the default one")
    parser.add_argument("--image", type=Path, metavar="FILE", help="the image to send; by default a generated picture")
    parser.add_argument("--seconds", type=_seconds, default=120.0, help="limit in seconds, 120 by default")
    parser.add_argument("--json", action="store_true", help="print JSON with every figure instead of environment lines")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not LEAST_SECONDS <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"expected a number from {LEAST_SECONDS} to 86400, got {text!r}")
    return seconds


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(options: argparse.Namespace, began: float) -> int:
    settings = load_settings()
    find_nginx()
    kind, _ = model_server_program(settings)
    model = _find_model(options.model, settings)
    body, image = picture(options.image)
    clients = min(max(LEAST_CLIENTS, 4 * available_cores()), MOST_CLIENTS)
    baseline = "the present settings" if settings.model_fields_set.intersection(PARAMETERS) else "the defaults"
    about = report.Circumstances(model.name, image, available_cores(), kind, clients, baseline)
    _progress(f"starting {model.name} with {baseline}; {image}")

    def announce(step: Step, trial: Trial) -> None:
        _progress(report.progress(step, trial, time.monotonic() - began))

    try:
        findings = _measure(
            model, settings, Request(body, clients), options.seconds - (time.monotonic() - began), announce
        )
    except TooLittleTime as error:
        needed = f"at least {math.ceil(options.seconds + error.seconds)} for this model"
        raise TuneRefused(f"--seconds: expected {needed}, got {options.seconds:g}") from None
    seconds = time.monotonic() - began
    as_text = report.text(findings, about, seconds, options.seconds)
    print(report.as_json(findings, about, seconds) if options.json else as_text)
    return 0


def _measure(model: ModelOnDisk, settings: Settings, request: Request, seconds: float, announce: Announce) -> Findings:
    """Search with stacks that serve the one model; raise TuneRefused and TooLittleTime."""
    with tempfile.TemporaryDirectory(prefix="lightbox-tune-") as folder:
        environ = only(model, settings, Path(folder))
        try:
            with open_measurer(environ, request, seconds) as measurer:
                return search(measurer, single_changes(_with_threads(settings, model), request.clients), announce)
        except CannotServe as error:
            reason = str(error).replace(str(Path(folder, model.name)), str(model.base_path))
            raise TuneRefused(f"{model.name} cannot be served: {reason}") from None


def _with_threads(settings: Settings, model: ModelOnDisk) -> Settings:
    """Return the settings with the threads for an operation that a start chooses, so that others are tried."""
    return settings.model_copy(update={"intra_op_parallelism": op_threads.choose(settings, [model]).count})


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _find_model(name: str | None, settings: Settings) -> ModelOnDisk:
    models, default = plan_models(settings)
    if name is not None and name not in models:
        raise TuneRefused(
            f"MODEL: there is no model named {name!r} in {settings.model_dir}; found: {', '.join(models)}"
        )
    return models[name or default]


def only(model: ModelOnDisk, settings: Settings, folder: Path) -> dict[str, str]:
    """Return the environment that serves one model alone, from a folder of links: the others need not be loaded.

    A model that is a file is alone.
    """
    alone = {variable_names("default_model")[0]: model.name}
    if model.base_path.is_file():
        return alone | {variable_names("model_dir")[0]: str(model.base_path)}
    (folder / model.name).symlink_to(model.base_path, target_is_directory=True)
    (folder / "code").symlink_to(settings.model_dir / "code")
    return alone | {variable_names("model_dir")[0]: str(folder)}
