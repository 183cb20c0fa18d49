"""``lightbox export``: a sample model as a SavedModel."""

from __future__ import annotations

from pathlib import Path

import click

from lightbox.model_zoo import layout
from lightbox.model_zoo.catalogue import CATALOGUE, Weights
from lightbox.model_zoo.image_model import InputForm
from lightbox.model_zoo.input_forms import left_to_caller
from lightbox.model_zoo.saved_model import export, quiet_tensorflow, warn_of_random_weights
from lightbox.telemetry import say


@click.command("export", epilog="Example: lightbox export efficientnet_lite0 models/efficientnet_lite0")
@click.argument("model", type=click.Choice(list(CATALOGUE)), metavar="MODEL")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "form",
    type=click.Choice(["float32", "uint8", "bytes"]),
    help="Prepared tensor, raw pixels (the graph scales) or encoded images (the graph decodes, resizes, scales). "
    "The default is float32; uint8 for efficientnet_lite0 and efficientdet_d1.",
)
@click.option(
    "--weights",
    type=click.Choice(["imagenet", "coco", "none"]),
    help="Trained weights to download, or none: seeded random ones (digits trains its own). mobilenet_v2 takes "
    "imagenet, and random ones when those cannot be had; efficientdet_d1 can take coco.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    help="efficientdet_d1 from the detection zoo's .tar.gz archive.",
)
@click.option("--version", type=click.IntRange(1), help="The version to write.")
@click.option("--force", is_flag=True, help="Replace the version, and another scaling in code/lightbox.json.")
def command(
    model: str,
    out: Path,
    form: InputForm | None,
    weights: Weights | None,
    archive: Path | None,
    version: int | None,
    force: bool,
) -> None:
    """Export a sample model as a SavedModel.

    MODEL is efficientnet_lite0, mobilenet_v2, mobilenet_v2_folded, efficientdet_d1 or digits. It becomes
    OUT/<version>/saved_model.pb, with OUT/code/lightbox.json beside it. The version is 1 in a folder that has none.
    Where there is one, --version puts a new one beside it and --force replaces the newest. code/lightbox.json holds the
    scaling that the chosen form of input leaves to Lightbox; what else it holds is kept.
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
    quiet_tensorflow()
    try:
        # What would do harm is refused before the seconds of building.
        layout.check_writable(out)
        number = layout.version_to_write(out, version, force)
        layout.settings_to_write(out, left_to_caller(entry.scaling, form or entry.form), force)
        say.progress(f"{model}: building it with input {form or entry.form}; TensorFlow takes some seconds to start")
        built = entry.build(weights or entry.weights[0], archive)
        written = export(built, form or entry.form, out, number, force)
    except (layout.Refused, OSError) as problem:
        raise click.ClickException(str(problem)) from None
    if built.random:
        warn_of_random_weights(model, built.weights, entry.remedy)
    say.progress(f"{model}: {written} is ready, {built.weights}")
