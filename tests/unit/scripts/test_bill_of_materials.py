"""The bill of materials, from parts like those of an image. tests/image makes it from a real image."""

from __future__ import annotations

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from docker_image.parts import bill_of_materials, licences_of, outside_of_packages, part

pytestmark = pytest.mark.extended

PACKAGED = [
    part("tini", "pkg:deb/debian/tini@0.19.0-1", "MIT"),
    part("orjson", "pkg:pypi/orjson@3.13.0", "MPL-2.0 AND (Apache-2.0 OR MIT)"),
    part("CPython", "pkg:generic/python@3.11.7", "PSF-2.0"),
]


def test_every_part_has_a_version_an_address_and_licences() -> None:
    text = bill_of_materials("lightbox", "0.1.0", [*PACKAGED, *outside_of_packages(PACKAGED)])
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    addresses = {component["purl"].partition("@")[0] for component in bill["components"]}
    assert addresses == {
        "pkg:deb/debian/tini",
        "pkg:pypi/orjson",
        "pkg:generic/python",
        "pkg:github/tensorflow/serving",
        "pkg:pypi/tensorflow",
        "pkg:generic/lightbox-page-samples",
    }
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert all(component["version"][0].isdigit() and component["licenses"] for component in bill["components"])


def test_where_tensorflow_itself_is_shipped_only_samples_are_outside_of_packages() -> None:
    (samples,) = outside_of_packages([part("tensorflow-cpu", "pkg:pypi/tensorflow-cpu@2.20.0", "Apache-2.0")])
    assert licences_of(samples) == ["CC-BY-2.0", "CC-BY-4.0"]
    assert len(outside_of_packages([part("tensorflow-serving-api", "pkg:pypi/tensorflow-serving-api@2.20.0")])) == 3
