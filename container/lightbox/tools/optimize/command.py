"""``lightbox optimize``: the cheapest setting of a model that is still right, found on the user's pictures."""

from __future__ import annotations

import hashlib
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from lightbox.base.control_characters import escape
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.cli.setting_options import SettingsCommand, named_model_argument
from lightbox.cli.starting import look_at_engines
from lightbox.model.options import ModelOptions, OptionSettings, own_options
from lightbox.model_files.archives import ENDINGS
from lightbox.model_files.checks import newest_folder
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.setting import TRIED, Setting, keep
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.models_on_disk import code_dirs, find_model, plan_models, shared_code_dirs
from lightbox.tools.harness.tables import padded_table
from lightbox.tools.optimize.pictures import PicturesRefused, divided, find_pictures
from lightbox.tools.optimize.search import Search
from lightbox.tools.optimize.trial import Subject, TrialFailed

INTERRUPTED = 130
_BUDGET = re.compile(r"(\d*\.?\d+)(%?)")


class OptimizeRefused(Exception):
    """Nothing can be optimized; the message is one sentence."""


class BudgetType(click.ParamType[float]):
    """A share: ``0.5%`` or ``0.005``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share that a text names."""
        if isinstance(value, float):
            return value
        found = _BUDGET.fullmatch(value)
        share = float(found[1]) / (100 if found[2] else 1) if found else 0.0
        if not 0 < share < 1:
            self.fail(f"expected a share such as 0.5%, got {value!r}", param, ctx)
        return share


@click.command("optimize", cls=SettingsCommand, epilog="Example: lightbox optimize ./models/cats photos")
@named_model_argument
@click.argument("pictures", required=False, type=click.Path(path_type=Path), metavar="[PICTURES]")
@click.option(
    "--budget",
    type=BudgetType(),
    metavar="SHARE",
    default="0.5%",
    show_default=True,
    help="Most of the answers that may differ from the present ones.",
)
def command(name: str | None, pictures: Path | None, budget: float) -> int:
    """Find the cheapest setting that is still right.

    It tries engines, precisions, optimisation levels, threads and reduced decoding on the images in the folder
    PICTURES, and writes the one with the least CPU time whose answers agree with the present ones into the model's
    folder, with a report. Without PICTURES, it compares the engines of SavedModels and stores the result there.

    MODEL is a path, or the name of a model in LIGHTBOX_MODEL_DIR. The same command continues an interrupted run.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        settings = load_settings()
        _refuse_archives(settings)
        if pictures is None:
            models = [find_model(name, settings)] if name else plan_models(settings)[0].values()
            return look_at_engines(models, settings, "--write")
        return _optimize(find_model(name, settings), settings, pictures, budget)
    except KeyboardInterrupt:
        log("interrupted: the same command goes on from here")
        return INTERRUPTED
    except (OptimizeRefused, PicturesRefused, TrialFailed, LookupError) as error:
        log(escape(str(error)))
        return 1
    except OSError as error:
        log(f"{error.filename}: {error.strerror}")
        return 1


def _refuse_archives(settings: Settings) -> None:
    for path in (settings.model_dir, *settings.models.values()):
        if path.name.endswith(ENDINGS) and path.is_file():
            raise OptimizeRefused(f"MODEL: nothing can be written into the archive {path}: unpack it first")


def _optimize(model: ModelOnDisk, settings: Settings, folder: Path, budget: float) -> int:
    subject, began = _subject(model, settings), time.monotonic()
    pictures = divided(found := find_pictures(folder), budget)
    _say(f"{len(pictures.comparing):,} pictures are compared, {len(pictures.calibrating):,} others calibrate INT8")
    search = Search(subject, pictures, budget, lambda line: _say(f"[{time.monotonic() - began:5.0f} s] {line}"))
    search.find()
    total = hashlib.sha256("".join(picture.digest for picture in found).encode()).hexdigest()
    counts = {"compared": len(pictures.comparing), "calibrating": len(pictures.calibrating)}
    report = {"budget": budget, "pictures": {"digest": total, **counts}, "tried": [*search.tried.values()]}
    keep(subject.folder, search.setting, report)
    print("\n".join(_lines(model, search)))
    return 0


def _subject(model: ModelOnDisk, settings: Settings) -> Subject:
    """Return the model to optimize. Raises OptimizeRefused if something else decides."""
    if model.base_path.is_file():
        raise OptimizeRefused(f"MODEL: expected a folder; put {model.base_path.name} into one of its own")
    folders = code_dirs(model, shared_code_dirs(settings))
    own = own_options(folders, settings)
    if named := [key for key in ("engine", "precision") if own.get(key, AUTO) != AUTO]:
        raise OptimizeRefused(f"{model.name}: the options set the {named[0]}, which is to be found: remove it there")
    if settings.engine not in (None, AUTO):
        raise OptimizeRefused(f"LIGHTBOX_ENGINE: expected {AUTO}, which uses the setting, got {settings.engine}")
    token = TRIED.set(Setting())
    options = model_options(model, folders, settings)
    TRIED.reset(token)
    alone = len(plan_models(settings)[0]) == 1
    overrides = settings.of(OptionSettings)
    given = overrides.options.model_dump(mode="json", exclude_unset=True)
    given |= {key: value for key, value in (("scaling", overrides.scaling), ("labels", overrides.labels)) if value}
    return Subject(
        str(settings.model_dir if alone and not settings.models else model.base_path),
        newest_folder(model),
        given,
        options.labels if isinstance(options.labels, tuple) else (),
        ModelOptions.model_dump_json(options, exclude_unset=True),
        "fast_decode" not in own,
    )


def _lines(model: ModelOnDisk, search: Search) -> list[str]:
    rows = []
    for setting, item in search.tried.items():
        cpu = f"{item['cpu_ms']['this']:.3g} of {item['cpu_ms']['present']:.3g}" if "cpu_ms" in item else ""
        agrees = ", ".join(f"{measure} {value:.2%}" for measure, value in item.get("agreement", {}).items())
        truth = item.get("truth", {"present": {}})
        right = ", ".join(
            f"{name} {value:.2%} of {truth['present'][name]:.2%}" for name, value in truth.get("this", {}).items()
        )
        rows.append([setting, cpu, agrees, right, str(item.get("pictures", "")), item["verdict"]])
    header = ["setting", "CPU ms, of the present", "agreement", "right, of the present", "pictures", "verdict"]
    said = "the present setting stays"
    if best := search.best:
        said = f"{best.setting} takes {best.share:.0%} of the CPU time of a picture, and is used from now on"
    return [*padded_table(header, rows), "", escape(f"{model.name}: {said}")]


def _say(line: str) -> None:
    print(escape(line), file=sys.stderr, flush=True)
