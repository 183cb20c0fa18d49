"""Prints the engine of each signature of models; can compare engines, and write the result beside the model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.hardware import PRECISIONS, Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.engines.setting import setting_of
from lightbox.model_runtime.wire.status import StatusError


def main(arguments: list[str]) -> int:
    """Print a line for each signature; return 1 if a folder could not be read or written."""
    parser = argparse.ArgumentParser(prog="lightbox.model_runtime.engines", description=__doc__)
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="a version's folder")
    parser.add_argument("--compare", action="store_true", help="compare the engines now if no result is cached")
    parser.add_argument("--write", action="store_true", help="compare, and write the result into FOLDER")
    parser.add_argument("--precision", choices=PRECISIONS, help="how OpenVINO computes (f32)")
    parser.add_argument("--tags", default="serve", help="comma-separated tags of the graph (serve)")
    parser.add_argument("--cache", default="", help="cache folder of verdicts")
    options = parser.parse_args(arguments)
    count = available_cores()
    hardware = Hardware(count, count, options.precision or PRECISIONS[0], options.cache)
    named = {"precision": options.precision} if options.precision else {}
    opener = Opener(AUTO, tuple(options.tags.split(",")), b"", hardware, options=named)
    return max(
        _print_choices(opener, folder, options.compare or options.write, options.write) for folder in options.folders
    )


def _print_choices(opener: Opener, folder: str, compares: bool, writes: bool) -> int:
    try:
        choices = opener.choices(folder, compares, writes)
    except (StatusError, OSError) as error:
        print(_line(f"{folder}: {error}"), file=sys.stderr)
        return 1
    if not choices:
        print(f"{folder}: no second engine that opens it is installed", file=sys.stderr)
        return 1
    setting, why = setting_of(Path(folder), opener.options)
    found = f"; auto takes the setting of lightbox optimize: {setting}" if setting else ""
    found = f"; auto does not take the setting of lightbox optimize: {why}" if why else found
    for name, choice in sorted(choices.items()):
        print(_line(f"{name}: {choice.engine or 'not compared yet'} ({choice.reason}){found}"))
    return 0


def _line(text: str) -> str:
    """Return a text of one line without what controls a terminal: names are those of a file."""
    return text if text.isprintable() else repr(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
