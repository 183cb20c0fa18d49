"""Makes the missing sample models of `make serve`: DIR/efficientnet_lite0, mobilenet_v2 and digits.

A version appears completely or not at all, even if the run is interrupted. If all exist, it returns at once, without
importing TensorFlow.
"""

import argparse
import sys
from pathlib import Path

from lightbox.base.telemetry import say
from lightbox.tools.model_zoo import folder as layout
from lightbox.tools.model_zoo.staging import locked

SAMPLES = ("efficientnet_lite0", "mobilenet_v2", "digits")


def main(arguments: list[str] | None = None) -> int:
    """Make the missing models under DIR and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder of models")
    directory: Path = parser.parse_args(arguments).directory
    try:
        if not all(is_complete(directory / name) for name in SAMPLES):
            layout.check_writable(directory)
            directory.mkdir(parents=True, exist_ok=True)
            with locked(directory):  # one process at a time
                for name in SAMPLES:
                    if not is_complete(directory / name):
                        make(name, directory / name)
    except (layout.Refused, OSError) as problem:
        print(f"sample_models.py: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sample_models.py: interrupted; finished models stay, nothing half-made is left", file=sys.stderr)
        return 130
    return 0


def is_complete(root: Path) -> bool:
    """Whether the model has a version and the settings written by its export."""
    return bool(layout.versions(root)) and (root / layout.SETTINGS).is_file()


def make(name: str, root: Path) -> None:
    """Export one sample, or write the missing settings of an existing one."""
    from lightbox.tools.model_zoo.export import export, quiet_tensorflow
    from lightbox.tools.model_zoo.input_forms import left_to_caller
    from lightbox.tools.model_zoo.zoo import CATALOGUE

    entry = CATALOGUE[name]
    say.progress(f"{name}: building the sample model; TensorFlow takes some seconds to start")
    quiet_tensorflow()
    model = entry.build(entry.weights[0], None)
    if layout.versions(root):
        layout.write_settings(root, {"scaling": left_to_caller(model.scaling, entry.form)}, model.labels)
    else:
        export(model, entry.form, root)
        say.progress(f"{name}: {root} is ready, {model.weights}")


if __name__ == "__main__":
    sys.exit(main())
