"""A software bill of materials in CycloneDX's JSON, checked against its published schema."""

from __future__ import annotations

from collections.abc import Iterable

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from docker_image.inventory import MESSAGES, MODEL_SERVER, SAMPLES, Part

ADDRESSES = {
    MODEL_SERVER: ("github", "tensorflow", "serving"),
    MESSAGES: ("pypi", None, "tensorflow"),
    SAMPLES: ("generic", None, "lightbox-page-samples"),
    "CPython": ("generic", None, "python"),
}
"""Type, namespace and name in the package URL of parts that no package manager knows."""


LICENCE = "Apache-2.0"
"""Of this project's own files."""


class InvalidBill(Exception):
    """What was made is no valid CycloneDX document; the message is the validator's."""


def bill_of_materials(image: str, version: str, parts: Iterable[Part]) -> str:
    """Return the document for an image; raise InvalidBill."""
    own = LicenseFactory().make_with_id(LICENCE)
    root = Component(name=image, version=version, type=ComponentType.CONTAINER, licenses=[own])
    bom = Bom(components=[_component(part) for part in parts])
    bom.metadata.component = root
    bom.register_dependency(root, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    from cyclonedx.validation.json import JsonStrictValidator  # a second of grammars, which only this needs

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise InvalidBill(str(problem))
    return text


def _component(part: Part) -> Component:
    licences = LicenseFactory()
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType.APPLICATION if part.kind == "other" else ComponentType.LIBRARY,
        purl=_purl(part),
        bom_ref=f"{part.kind}:{part.name}@{part.version}",
        licenses=[_named(licences, words) for words in part.licences],
    )


def _named(licences: LicenseFactory, words: str) -> DisjunctiveLicense:
    """Return a licence by its SPDX identifier where the words are one, else by name.

    Several licences of one part are a list, and CycloneDX allows no expression in a list of several.
    """
    try:
        return licences.make_with_id(words)
    except InvalidSpdxLicenseException:
        return licences.make_with_name(words)


def _purl(part: Part) -> PackageURL:
    if part.kind == "other":
        return PackageURL(*ADDRESSES[part.name], part.version)
    return PackageURL(part.kind, "debian" if part.kind == "deb" else None, part.name, part.version)
