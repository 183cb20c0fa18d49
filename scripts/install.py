"""Installs the packages of locks beside the Python that runs it: install.py [--prefix=FOLDER] requirements/x.lock ...

With uv, which takes a tenth of pip's processor time, from where pip is configured to look; with pip where uv fails.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
UV_LOCK = Path(__file__).parent.parent / "requirements" / "uv.lock"
ALIKE = ("index-url", "extra-index-url", "find-links")
"""Options of pip that uv has under the same name."""


def _run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, text=True, **options)  # noqa: S603, PLW1510 - pip and uv of this environment


def configured() -> dict[str, str]:
    """Return pip's options by name: of its files for every command and for ``install``, and of its variables."""
    said = _run([*PIP, "config", "list"], stdout=subprocess.PIPE, check=True).stdout
    options = dict[str, str]()
    for section in ("global", "install", ":env:"):
        for line in said.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(f"{section}."):
                options[name.removeprefix(f"{section}.")] = ast.literal_eval(value)
    return options


def uv_options(options: dict[str, str]) -> list[str]:
    """Return uv's options for the places of pip's, of all of which it takes the version of the lock."""
    places = [f"--{name}={value}" for name in ALIKE for value in options.get(name, "").split()]
    no_index = ["--no-index"] if options.get("no-index", "").lower() in ("1", "on", "true", "yes") else []
    return ["--index-strategy=unsafe-best-match", *no_index, *places]


def main(*arguments: str) -> int:
    """Install the packages, and return the exit code of the installer."""
    locked = ["--no-deps", "--require-hashes"]
    wanted = [word if word.startswith("--prefix=") else f"--requirement={word}" for word in arguments]
    options = configured()
    environ = os.environ | ({"SSL_CERT_FILE": options["cert"]} if "cert" in options else {})
    uv = [sys.executable, "-m", "uv", "pip", "install", f"--python={sys.executable}", *uv_options(options)]
    with_uv = (
        [*PIP, "install", "--quiet", "--no-compile", *locked, "--requirement", str(UV_LOCK)],
        [*uv, *locked, *wanted],
    )
    if all(_run(command, env=environ).returncode == 0 for command in with_uv):
        return 0
    print("== uv cannot install this, so pip does", flush=True)
    # One package, of which the tests use only files, does not yet allow Python 3.13.
    pip = [*PIP, "install", "--no-compile", "--ignore-requires-python", *locked, *wanted]
    return _run(pip).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
