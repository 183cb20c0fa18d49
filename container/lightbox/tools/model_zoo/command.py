"""``lightbox export``: a sample model as a SavedModel or an ONNX file."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import click

from lightbox.base.telemetry import say
from lightbox.tools.model_zoo import folder as layout
from lightbox.tools.model_zoo.export import export, quiet_tensorflow, warn_of_random_weights
from lightbox.tools.model_zoo.image_model import InputForm
from lightbox.tools.model_zoo.input_forms import left_to_caller
from lightbox.tools.model_zoo.zoo import CATALOGUE, Weights


@click.command("export", epilog="Example: lightbox export efficientnet_lite0 models/efficientnet_lite0")
@click.argument("model", type=click.Choice(list(CATALOGUE)), metavar="MODEL")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "form",
    type=click.Choice(["float32", "uint8", "bytes"]),
    help="Input of the graph: scaled pixels (float32), pixels (uint8) or encoded images (bytes). "
    "By default float32; uint8 for efficientnet_lite0 and efficientdet_d1.",
)
@click.option(
    "--format",
    "written_as",
    type=click.Choice(["saved_model", "onnx"]),
    help="Format of the file; onnx for efficientnet_lite0 only. By default saved_model; onnx without TensorFlow.",
)
@click.option(
    "--weights",
    type=click.Choice(["imagenet", "coco", "none"]),
    help="Weights, or none for random ones, the default of efficientdet_d1.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    help="Weights of efficientdet_d1, as the .tar.gz archive of the detection zoo.",
)
@click.option(
    "--version", type=click.IntRange(1), metavar="N", help="Version to write; by default 1 in an empty folder."
)
@click.option("--force", is_flag=True, help="Replace the newest version, and another scaling in code/lightbox.json.")
def command(
    model: str,
    out: Path,
    form: InputForm | None,
    written_as: Literal["saved_model", "onnx"] | None,
    weights: Weights | None,
    archive: Path | None,
    **numbered: Any,
) -> None:
    """Export a sample model as a SavedModel, which takes TensorFlow, or as an ONNX file.

    MODEL is efficientnet_lite0, mobilenet_v2, efficientdet_d1 or digits. The model is written to
    OUT/VERSION, the scaling that it needs to OUT/code/lightbox.json.
    """
    entry = CATALOGUE[model]
    if weights not in (None, *entry.weights):
        raise click.UsageError(f"{model} has no {weights} weights; it takes {' or '.join(entry.weights)}")
    if archive is not None and (model != "efficientdet_d1" or weights == "none"):
        raise click.UsageError(
            "--archive gives efficientdet_d1 its published weights: it goes with no other model or weights"
        )
    if archive is not None and not archive.is_file():
        raise click.UsageError(f"--archive {archive}: there is no such file")
    version, force = numbered["version"], numbered["force"]
    form = form or entry.form
    save_onnx = entry.save_onnx if form != "bytes" else None
    if written_as == "onnx" and save_onnx is None:
        raise click.UsageError("--format onnx is for efficientnet_lite0 with an input of uint8 or float32")
    if written_as == "saved_model" or (written_as is None and find_spec("tensorflow")):
        save_onnx = None
    try:
        # What would do harm is refused before the seconds of building.
        layout.check_writable(out)
        number = layout.version_to_write(out, version, force)
        settings = layout.settings_to_write(out, left_to_caller(entry.scaling, form), force)
        if save_onnx:
            written = layout.write_version(out, number, settings, entry.labels(), partial(save_onnx, form))
            say.progress(f"{model}: {written} is ready, an ONNX file")
            return
        quiet_tensorflow()
        say.progress(f"{model}: building it with input {form}; TensorFlow takes some seconds to start")
        built = entry.build(weights or entry.weights[0], archive)
        written = export(built, form, out, number, force)
    except (layout.Refused, OSError) as problem:
        raise click.ClickException(str(problem)) from None
    if built.random:
        warn_of_random_weights(model, built.weights, entry.remedy)
    say.progress(f"{model}: {written} is ready, {built.weights}")
