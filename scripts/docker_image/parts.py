"""Lists the contents of an image with licences: Debian packages, Python packages, and unpackaged parts.

The bill of materials is CycloneDX JSON; tests check it against the published schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import fixup_id
from packageurl import PackageURL

from docker_image.docker import REPOSITORY, Engine, argument
from lightbox.tools.harness.tables import table

ASKED_INSIDE = Path(__file__).with_name("ask_inside.py")
WORDS = {
    r"apache( software)?( license)?(,? (version )?2(\.0)?)?": "Apache-2.0",
    r"(3-clause )?bsd license": "BSD-3-Clause",
    r"mit license( \(mit\))?|expat": "MIT",
    r"python software foundation license": "PSF-2.0",
    r"mozilla public license 2\.0 \(mpl 2\.0\)": "MPL-2.0",
}
"""SPDX identifiers of what authors call a licence."""


def parts(engine: Engine, image: str) -> list[Component]:
    """Return all parts of an image, by kind and name."""
    command = ("run", "--rm", "--interactive", "--entrypoint=python3", image, "-c", ASKED_INSIDE.read_text())
    found = [part(entry["name"], entry["address"], *entry["licences"]) for entry in json.loads(engine.run(*command))]
    return sorted([*found, *outside_of_packages(found)], key=lambda each: str(each.purl))


def part(name: str, address: str, *licences: str) -> Component:
    """Return one shipped part by its package URL; licences are SPDX identifiers or the authors' names for them."""
    purl = PackageURL.from_string(address)
    return Component(
        name=name,
        version=purl.version,
        type=ComponentType.LIBRARY if purl.type in ("deb", "pypi") else ComponentType.APPLICATION,
        purl=purl,
        bom_ref=str(purl),
        licenses=[_licence(words) for words in licences],
    )


def outside_of_packages(components: Iterable[Component]) -> list[Component]:
    """Return the parts that the Dockerfile copies without a package manager."""
    # Two photos, and a digit of the UCI repository: container/lightbox/features/page/files/samples/README.md.
    version = argument("VERSION")
    samples = part(
        "sample images of the page", f"pkg:generic/lightbox-page-samples@{version}", "CC-BY-2.0", "CC-BY-4.0"
    )
    if any(each.name.startswith("tensorflow") and "serving" not in each.name for each in components):
        return [samples]
    release = argument("TFS_IMAGE").partition("@")[0].rpartition(":")[2]
    lock = (REPOSITORY / "requirements" / "model_server.lock").read_text()
    messages = re.findall(r"^tensorflow(?:-cpu)?==([\w.]+)", lock, re.MULTILINE)[0]
    return [
        samples,
        part("tensorflow_model_server", f"pkg:github/tensorflow/serving@{release}", "Apache-2.0"),
        part("tensorflow message modules", f"pkg:pypi/tensorflow@{messages}", "Apache-2.0"),
    ]


def write_parts(engine: Engine, image: str, version: str, begin: Path) -> list[Component]:
    """Write an image's bill of materials and licences as files with this name prefix; return the parts."""
    found = parts(engine, image)
    begin.with_name(f"{begin.name}.cdx.json").write_text(bill_of_materials(image, version, found))
    begin.with_name(f"{begin.name}-licences.md").write_text(licence_table(found))
    return found


def licence_table(found: Iterable[Component]) -> str:
    """Return a Markdown table of every part with its version and licences."""
    rows = [
        (each.purl.type if each.purl else "", each.name, each.version or "", ", ".join(licences_of(each)))
        for each in found
    ]
    return "\n".join([*table(("kind", "name", "version", "licences"), rows), ""])


def licences_of(each: Component) -> list[str]:
    """Return the licences of a part, by SPDX identifier or by name."""
    return [licence.id or licence.name or "" for licence in each.licenses if isinstance(licence, DisjunctiveLicense)]


def bill_of_materials(image: str, version: str, found: Iterable[Component]) -> str:
    """Return the document for an image."""
    root = Component(name=image, version=version, type=ComponentType.CONTAINER, licenses=[_licence("Apache-2.0")])
    bom = Bom(components=found)
    bom.metadata.component = root
    bom.register_dependency(root, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _licence(words: str) -> DisjunctiveLicense:
    """Return a licence by SPDX identifier if the text is or means one, else by name.

    Several licences of one part form a list; CycloneDX allows no expression in such a list.
    """
    known = next((spdx for pattern, spdx in WORDS.items() if re.fullmatch(pattern, words, re.IGNORECASE)), words)
    identifier = fixup_id(known)
    return DisjunctiveLicense(id=identifier) if identifier else DisjunctiveLicense(name=words)
