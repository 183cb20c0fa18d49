"""Makes the missing sample models of `make serve`: DIR/efficientnet_lite0, mobilenet_v2 and digits.

A version appears completely or not at all, even if the run is interrupted. If all exist, it returns at once, without
importing TensorFlow.
"""

import argparse
import sys
from pathlib import Path

import click

from lightbox.tools.model_zoo import folder as layout
from lightbox.tools.model_zoo.staging import locked

SAMPLES = ("efficientnet_lite0", "mobilenet_v2", "digits")


def main(arguments: list[str] | None = None) -> int:
    """Make the missing models under DIR and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder of models")
    directory: Path = parser.parse_args(arguments).directory
    try:
        if not all(layout.versions(directory / name) for name in SAMPLES):
            layout.check_writable(directory)
            directory.mkdir(parents=True, exist_ok=True)
            with locked(directory):  # one process at a time
                make_missing(directory)
    except (layout.Refused, click.ClickException, OSError) as problem:
        print(f"sample_models.py: {problem}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, click.Abort):
        print("sample_models.py: interrupted; finished models stay, nothing half-made is left", file=sys.stderr)
        return 130
    return 0


def make_missing(directory: Path) -> None:
    """Export each model that has no version."""
    from lightbox.tools.model_zoo.command import command

    for name in SAMPLES:
        if not layout.versions(directory / name):
            command.main([name, str(directory / name), "--format=saved_model"], standalone_mode=False)


if __name__ == "__main__":
    sys.exit(main())
