"""Runs the checks of docs/real-server.md against your tensorflow_model_server.

scripts/check_real_server.py                                          the binary on PATH, else Docker
scripts/check_real_server.py --server docker --image tensorflow/serving:2.20.0
scripts/check_real_server.py --server embedded                        the embedded server of this repository
scripts/check_real_server.py --only transcripts --only many-models
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from lightbox.tools.harness.server_process import ServerFailed
from real_server.parts import PARTS
from real_server.program import KINDS, NoServer, program, version

IMAGE = "tensorflow/serving:2.19.1"
"""The release that was recorded."""


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and return the exit code: 0 when everything matches the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--server", choices=KINDS, help="what is checked; unless given, the binary on PATH, else docker"
    )
    parser.add_argument("--image", default=IMAGE, help=f"the image for docker, {IMAGE} unless given")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be given several times")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lb-real-") as folder:
        try:
            with program(options.server, options.image, Path(folder)) as path:
                print(version(path), flush=True)
                return 1 if sum(check(name, path, Path(folder)) for name in options.only or PARTS) else 0
        except NoServer as error:
            print(f"check_real_server.py: {error}; see --help", file=sys.stderr)
            return 2


def check(name: str, path: Path, folder: Path) -> int:
    """Run one part, print the problems and return their number."""
    print(f"{name}: {PARTS[name].__doc__}", flush=True)
    own = folder / str(list(PARTS).index(name))  # short, because unix socket paths are limited in length
    own.mkdir()
    try:
        problems = list(PARTS[name](path, own))
    except ServerFailed as error:
        problems = [str(error)]
    for problem in problems:
        print(f"   WRONG: {problem}", flush=True)
    print(f"   {f'{len(problems)} wrong' if problems else 'ok'}", flush=True)
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())
