"""Runs inside an image, with the standard library only: prints its packages and licences as JSON."""

import json
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from urllib.parse import quote


def of_python() -> list[dict[str, object]]:
    """Every installed distribution: its licence expression, else its classifiers, else its licence field."""
    entries: list[dict[str, object]] = []
    for distribution in metadata.distributions():
        about = distribution.metadata
        classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if "License" in line]
        field = (about["License"] or "").strip().splitlines()
        licences = [about["License-Expression"]] if about["License-Expression"] else classifiers or field[:1]
        licences = licences or named_in_texts(distribution)
        entries.append(entry(f"pypi/{about['Name'].lower()}", about["Name"], distribution.version, licences))
    return [*entries, entry("generic/python", "CPython", platform.python_version(), ["PSF-2.0"])]


def named_in_texts(distribution: metadata.Distribution) -> list[str]:
    """Return the usual licences that a distribution's licence texts name."""
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files or [] if "LICENSE" in file.name]
    texts = " ".join(" ".join(path.read_text(errors="replace").split()) for path in paths)
    return [name for name in ("Apache License, Version 2.0", "MIT License", "BSD 3-Clause License") if name in texts]


def of_debian() -> list[dict[str, object]]:
    """Every installed package: the short names in its machine-readable copyright file."""
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\n"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603
    installed = [line.split()[:2] for line in lines if line.endswith(" installed")]
    return [entry(f"deb/debian/{name}", name, version, copyright_of(name)) for name, version in installed]


def copyright_of(package: str) -> list[str]:
    """Return the licences that a package's copyright file names; older files are prose without such names."""
    path = Path("/usr/share/doc", package, "copyright")
    if not path.exists():
        return []
    text = path.read_text(errors="replace")
    return sorted(set(re.findall(r"^License:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE))) or named_in_prose(text)


def named_in_prose(text: str) -> list[str]:
    """Return Debian's common licences that the prose refers to by file name, else the GNU licences that it names."""
    pointed_at = set(re.findall(r"/usr/share/common-licenses/([A-Z][\w.-]*\w)", text))
    spelt = re.findall(r"GNU\s+(Lesser\s+|Library\s+)?General\s+Public\s+License,\s+version\s+([\d.]*\d)", text)
    return sorted(pointed_at or {f"{'L' if lesser else ''}GPL-{version}" for lesser, version in spelt})


def entry(address: str, name: str, version: str, licences: list[str]) -> dict[str, object]:
    """Return one part in the format of parts.py; the address is a package URL without version."""
    found = licences or ["see its copyright file"]
    return {"name": name, "address": f"pkg:{address}@{quote(version)}", "licences": found}


if __name__ == "__main__":
    print(json.dumps(of_python() + of_debian()))
