"""What an image ships: Debian's packages, Python's, and parts that no package manager knows, with licences.

The bill of materials is CycloneDX's JSON, checked against its published schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from docker_image.docker import REPOSITORY, Docker, argument
from lightbox.harness.tables import table

ASKED_INSIDE = Path(__file__).with_name("ask_inside.py")
LICENCE = "Apache-2.0"
"""Of this project's own files."""
WORDS = {
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
"""SPDX identifiers of what authors call a licence."""


class InvalidBill(Exception):
    """What was made is no valid CycloneDX document; the message is the validator's."""


@dataclass(frozen=True)
class Part:
    """One thing that is shipped; licences are SPDX expressions or the words its authors use."""

    name: str
    address: PackageURL
    licences: tuple[str, ...]


def parts(docker: Docker, image: str) -> list[Part]:
    """Return all parts of an image, by kind and name."""
    command = ("run", "--rm", "--interactive", "--entrypoint=python3", image, "-c", ASKED_INSIDE.read_text())
    found = [
        part(entry["name"], entry["address"], *sorted({WORDS.get(each.lower(), each) for each in entry["licences"]}))
        for entry in json.loads(docker.run(*command))
    ]
    return sorted([*found, *outside_of_packages(found)], key=lambda each: (each.address.type, each.name))


def part(name: str, address: str, *licences: str) -> Part:
    """Return a part by its package URL."""
    return Part(name, PackageURL.from_string(address), licences)


def outside_of_packages(found: Iterable[Part]) -> list[Part]:
    """Return what the Dockerfile copies without a package manager, beside the packages that were found."""
    # Two photos, and a digit of the UCI repository: container/lightbox/features/page/files/samples/README.md.
    version = argument("VERSION")
    samples = part(
        "sample images of the page", f"pkg:generic/lightbox-page-samples@{version}", "CC-BY-2.0", "CC-BY-4.0"
    )
    if any(each.name.startswith("tensorflow") and "serving" not in each.name for each in found):
        return [samples]
    release = argument("TFS_IMAGE").partition("@")[0].rpartition(":")[2]
    lock = (REPOSITORY / "requirements" / "model_server.lock").read_text()
    messages = re.findall(r"^tensorflow(?:-cpu)?==([\w.]+)", lock, re.MULTILINE)[0]
    return [
        samples,
        part("tensorflow_model_server", f"pkg:github/tensorflow/serving@{release}", "Apache-2.0"),
        part("tensorflow message modules", f"pkg:pypi/tensorflow@{messages}", "Apache-2.0"),
    ]


def write_parts(docker: Docker, image: str, version: str, begin: Path) -> list[Part]:
    """Write an image's bill of materials and its licences as files whose names begin so; return the parts."""
    found = parts(docker, image)
    begin.with_name(f"{begin.name}.cdx.json").write_text(bill_of_materials(image, version, found))
    begin.with_name(f"{begin.name}-licences.md").write_text(licence_table(found))
    return found


def licence_table(found: Iterable[Part]) -> str:
    """Return every part with its version and licences as a table in Markdown."""
    rows = [(each.address.type, each.name, each.address.version or "", ", ".join(each.licences)) for each in found]
    return "\n".join([*table(("kind", "name", "version", "licences"), rows), ""])


def bill_of_materials(image: str, version: str, found: Iterable[Part]) -> str:
    """Return the document for an image; raise InvalidBill."""
    own = LicenseFactory().make_with_id(LICENCE)
    root = Component(name=image, version=version, type=ComponentType.CONTAINER, licenses=[own])
    bom = Bom(components=[_component(each) for each in found])
    bom.metadata.component = root
    bom.register_dependency(root, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    from cyclonedx.validation.json import JsonStrictValidator  # a second of grammars, which only this needs

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise InvalidBill(str(problem))
    return text


def _component(each: Part) -> Component:
    return Component(
        name=each.name,
        version=each.address.version,
        type=ComponentType.LIBRARY if each.address.type in ("deb", "pypi") else ComponentType.APPLICATION,
        purl=each.address,
        bom_ref=str(each.address),
        licenses=[_licence(words) for words in each.licences],
    )


def _licence(words: str) -> DisjunctiveLicense:
    """Return a licence by its SPDX identifier where the words are one, else by name.

    Several licences of one part are a list, and CycloneDX allows no expression in a list of several.
    """
    try:
        return LicenseFactory().make_with_id(words)
    except InvalidSpdxLicenseException:
        return LicenseFactory().make_with_name(words)
