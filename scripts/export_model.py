"""Exports a sample model as a SavedModel: OUT/<version>/saved_model.pb, and OUT/code/lightbox.json beside it.

The version is 1 in a folder that has none. Where there is one, --version N puts a new one beside it and
--force replaces the newest. code/lightbox.json holds the scaling that the chosen form of input leaves to the
sidecar; what else it holds is kept.
"""

import argparse
import sys
from pathlib import Path

from model_zoo import layout, say
from model_zoo.catalogue import CATALOGUE, Entry
from model_zoo.input_forms import left_to_caller
from model_zoo.saved_model import export, quiet_tensorflow, warn_of_random_weights


def main(arguments: list[str] | None = None) -> int:
    """Export as the command line says and return the exit code."""
    options = parse(arguments)
    quiet_tensorflow()
    try:
        run(options)
    except (layout.Refused, OSError) as problem:
        print(f"export_model.py: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("export_model.py: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line; what contradicts itself ends the process with one sentence and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", choices=CATALOGUE)
    add("out", metavar="OUT", type=Path, help="the model's folder, made if missing")
    add(
        "--input",
        choices=("float32", "uint8", "bytes"),
        help="prepared tensor, raw pixels (the graph scales) or encoded images (the graph decodes, resizes, "
        "scales); float32 by default, uint8 for efficientdet_d1, whose prepared tensor is pixels as float32",
    )
    add(
        "--weights",
        choices=("imagenet", "coco", "none"),
        help="trained weights to download, or none: seeded random ones (digits trains its own). mobilenet_v2 "
        "takes imagenet by default, random ones when those cannot be had; efficientdet_d1 can take coco",
    )
    add(
        "--archive",
        metavar="FILE",
        type=Path,
        help="efficientdet_d1 from the detection zoo's .tar.gz archive",
    )
    add("--version", type=version_number, metavar="N", help="the version to write")
    add("--force", action="store_true", help="replace the version, and another scaling in code/lightbox.json")
    options = parser.parse_args(arguments)
    entry = CATALOGUE[options.model]
    if options.weights not in (None, *entry.weights):
        parser.error(f"{options.model} has no {options.weights} weights; it takes {' or '.join(entry.weights)}")
    if options.archive is not None and (options.model != "efficientdet_d1" or options.weights == "none"):
        parser.error("--archive gives efficientdet_d1 its published weights: it goes with no other model or weights")
    if options.archive is not None and not options.archive.is_file():
        parser.error(f"--archive {options.archive}: there is no such file")
    return options


def version_number(text: str) -> int:
    """Return a version as TensorFlow Serving takes it here: a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a version is a whole number from 1, not {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> None:
    """Refuse what would do harm before the seconds of building; build; write."""
    entry: Entry = CATALOGUE[options.model]
    form = options.input or entry.form
    layout.check_writable(options.out)
    version = layout.version_to_write(options.out, options.version, options.force)
    layout.settings_to_write(options.out, left_to_caller(entry.scaling, form), options.force)
    say.progress(f"{options.model}: building it with input {form}; TensorFlow takes some seconds to start")
    model = entry.build(options.weights or entry.weights[0], options.archive)
    written = export(model, form, options.out, version, options.force)
    if model.random:
        warn_of_random_weights(options.model, model.weights, entry.remedy)
    say.progress(f"{options.model}: {written} is ready, {model.weights}")


if __name__ == "__main__":
    sys.exit(main())
