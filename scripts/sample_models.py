"""Makes the sample models of `make serve`: DIR/mobilenet_v2 and DIR/digits, those that are missing.

A model appears whole or not at all, however the run ends. When both are there this returns at once, without
importing TensorFlow.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from model_zoo import layout, say

SAMPLES = ("mobilenet_v2", "digits")


def main(arguments: list[str] | None = None) -> int:
    """Make what is missing under DIR and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder of models")
    directory: Path = parser.parse_args(arguments).directory
    try:
        if not all(is_complete(directory / name) for name in SAMPLES):
            layout.check_writable(directory)
            make_missing(directory)
        remind_of_random_weights(directory)
    except (layout.Refused, OSError) as problem:
        print(f"sample_models.py: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sample_models.py: interrupted; finished models stay, nothing half-made is left", file=sys.stderr)
        return 130
    return 0


def is_complete(root: Path) -> bool:
    """Whether the model has a version and the settings that its export wrote beside it."""
    return bool(layout.versions(root)) and (root / layout.SETTINGS).is_file()


def make_missing(directory: Path) -> None:
    """Export the missing samples, one process at a time."""
    from model_zoo.staging import staging

    with staging(directory) as partial:
        for name in SAMPLES:
            if not is_complete(directory / name):
                make(name, directory / name, partial)


def make(name: str, root: Path, partial: Path) -> None:
    """Export one sample; a folder that is not there yet is renamed into place as a whole."""
    from model_zoo.catalogue import CATALOGUE
    from model_zoo.saved_model import export, quiet_tensorflow

    entry = CATALOGUE[name]
    if layout.versions(root):
        layout.write_settings(root, {"scaling": entry.scaling})
        return
    say.progress(f"{name}: building the sample model; TensorFlow takes some seconds to start")
    quiet_tensorflow()
    model = entry.build(entry.weights[0], None)
    exported = export(model, entry.form, root if root.exists() else partial / name)
    compare_engines(exported)
    if not root.exists():
        (partial / name).rename(root)
    say.progress(f"{name}: {root} is ready, {model.weights}")


def compare_engines(version: Path) -> None:
    """Let the model bring along which engine answers it best, so that no start has to find out."""
    say.progress(f"{version}: comparing OpenVINO with TensorFlow")
    command = [sys.executable, "-P", "-m", "model_server.engines", "--write", str(version)]
    source = Path(__file__).resolve().parents[1] / "container"
    told = subprocess.run(  # noqa: S603 - our own program
        command, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, text=True, check=False
    )
    for line in (told.stdout + told.stderr).splitlines():
        say.progress(f"{version}: {line}")


def remind_of_random_weights(directory: Path) -> None:
    """Warn on every run, not only on the one that made the model."""
    for name in SAMPLES:
        weights = layout.weights_of(directory / name)
        if weights.startswith("random"):
            from model_zoo.saved_model import warn_of_random_weights

            remedy = f"Remove {directory / name} and run this again where the internet can be reached."
            warn_of_random_weights(name, weights, remedy)


if __name__ == "__main__":
    sys.exit(main())
