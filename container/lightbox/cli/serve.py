"""``lightbox serve``: the model server, gunicorn and nginx in the foreground."""

from __future__ import annotations

import asyncio
import signal

import click

from lightbox.base.machine.memory import find_trim
from lightbox.base.telemetry.logs import log, use_json
from lightbox.cli.setting_options import SettingsCommand, model_argument
from lightbox.cli.starting import StartRefused, checked_settings, fixed_models, interruptible, prepared_supervisor
from lightbox.features import wants
from lightbox.images.resize_library import resize_line
from lightbox.serving.settings_loading import spelling_hints
from lightbox.supervisor.starting.op_threads import threads_lines, with_op_threads
from lightbox.supervisor.starting.scaling_report import scaling_lines
from lightbox.supervisor.starting.start_checks import find_warnings
from lightbox.supervisor.supervisor import STOP_SIGNALS


@click.command(
    "serve", cls=SettingsCommand, epilog="Example: lightbox serve yolo11n.onnx --port 8080 --labels coco.txt"
)
@model_argument
def command() -> int:
    """Serve models until Ctrl-C or SIGTERM.

    MODEL is a folder of models, the folder of one model, a model file such as model.onnx, or a .tar.gz archive.
    Settings without an option come from environment variables.
    """
    with checked_settings() as (_, settings, problems):
        use_json(settings.log_format == "json")
        if problems:
            raise StartRefused("\n".join(problems))
        for warning in spelling_hints() + find_warnings(settings, wants(settings)):
            log(f"warning: {warning}")
        for line in scaling_lines(settings):
            log(str(line))
        planned = with_op_threads(settings, fixed_models(settings))
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until the supervisor handles them
        with prepared_supervisor(planned, interruptible()) as supervisor:
            log("; ".join([*threads_lines(planned, fixed_models(settings)), resize_line()]))
            find_trim()()  # of the graphs that were looked at
            return asyncio.run(supervisor.run())
