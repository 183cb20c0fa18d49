"""What an image ships: Debian's packages, Python's, and the parts that no package manager knows, with licences."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from docker_image.docker import Docker
from docker_image.dockerfile import REPOSITORY, argument
from lightbox.harness.tables import table

Kind = Literal["deb", "pypi", "other"]
ASKED_INSIDE = Path(__file__).with_name("ask_inside.py")
RELEASE = re.compile(r":([\d.]+)")
MODEL_SERVER, MESSAGES = "tensorflow_model_server", "tensorflow message modules"
SAMPLES = "sample images of the page"
"""What the Dockerfile copies without a package manager."""


@dataclass(frozen=True)
class Part:
    """One thing that is shipped; licences are SPDX expressions or the words its authors use."""

    kind: Kind
    name: str
    version: str
    licences: tuple[str, ...]


def inventory(docker: Docker, image: str) -> list[Part]:
    """Return all parts of an image, by kind and name."""
    command = ("run", "--rm", "--interactive", "--entrypoint=python3", image, "-c", ASKED_INSIDE.read_text())
    found = [
        Part(entry["kind"], entry["name"], entry["version"], tuple(sorted(set(map(_spdx, entry["licences"])))))
        for entry in json.loads(docker.run(*command))
    ]
    return sorted([*found, *outside_of_packages(found)], key=lambda part: (part.kind, part.name))


def outside_of_packages(found: list[Part]) -> list[Part]:
    """Return what the Dockerfile copies without a package manager."""
    release = RELEASE.search(argument("TFS_IMAGE"))
    # Two photos, and a digit of the UCI repository: container/lightbox/features/page/files/samples/README.md.
    samples = Part("other", SAMPLES, argument("VERSION"), ("CC-BY-2.0", "CC-BY-4.0"))
    if any(part.name.startswith("tensorflow") and "serving" not in part.name for part in found):
        return [samples]
    return [
        samples,
        Part("other", MODEL_SERVER, release[1] if release else "unknown", ("Apache-2.0",)),
        Part("other", MESSAGES, _locked_tensorflow(), ("Apache-2.0",)),
    ]


def _locked_tensorflow() -> str:
    """Return the version of the wheel that the message modules are taken from."""
    lock = (REPOSITORY / "requirements" / "model_server.lock").read_text()
    found = re.search(r"^tensorflow(?:-cpu)?==([\w.]+)", lock, re.MULTILINE)
    return found[1] if found else "unknown"


_WORDS = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "mit license": "MIT",
    "mit license (mit)": "MIT",
    "expat": "MIT",
    "python software foundation license": "PSF-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}


def _spdx(words: str) -> str:
    """Return the SPDX identifier for a licence's usual names, other words as they are."""
    return _WORDS.get(words.strip().lower(), words.strip())


def licence_table(parts: list[Part]) -> str:
    """Return every part with its version and licences as a table in Markdown."""
    rows = [(part.kind, part.name, part.version, ", ".join(part.licences)) for part in parts]
    return "\n".join([*table(("kind", "name", "version", "licences"), rows), ""])


def licence_counts(parts: list[Part]) -> list[tuple[str, int]]:
    """Return each licence with the number of parts that name it, the commonest first."""
    names = [licence for part in parts for licence in part.licences]
    return sorted(((name, names.count(name)) for name in set(names)), key=lambda pair: (-pair[1], pair[0]))
