from __future__ import annotations

import random
import re

from lightbox.core.attributes import parse_custom_attributes
from support.parameters import each

FOUND_BY_AWS = re.compile(r"(tfs-[a-z-]+)=([^,]+)")
"""The pattern that AWS's container searches for, as a slow regular expression."""


@each(
    ("header", "pairs"),
    [
        ("", {}),
        ("tfs-model-name=b", {"tfs-model-name": "b"}),
        ("trace=1; tfs-model-name=b", {"trace": "1; tfs-model-name=b", "tfs-model-name": "b"}),
        ("a word tfs-model-name=b", {"a word tfs-model-name": "b", "tfs-model-name": "b"}),
        (" tfs-model-name = b , mine=a=b ", {"tfs-model-name": "b", "mine": "a=b"}),
        ("tfs-model-name=a=b;c", {"tfs-model-name": "a=b;c"}),
        ("tfs-model-name=a,x;tfs-model-name=b", {"tfs-model-name": "b", "x;tfs-model-name": "b"}),
        ("tfs-model-name=a,tfs-model-name=", {"tfs-model-name": "a"}),
        ("tfs-model-name=a,tfs-model-name= ", {"tfs-model-name": "a"}),
        ("TFS-MODEL-NAME=a,no pair,=x", {"TFS-MODEL-NAME": "a"}),
    ],
)
def test_pairs_are_found_anywhere_and_the_last_wins(header: str, pairs: dict[str, str]) -> None:
    assert parse_custom_attributes(header) == pairs


def test_the_pairs_are_those_that_awss_container_finds() -> None:
    letters = random.Random(19)
    for _ in range(5000):
        header = "".join(letters.choices(["tfs-", "a", "-", "=", ",", ";", "X", "model-name"], k=12))
        ours = {name: value for name, value in parse_custom_attributes(header).items() if _is_awss(name)}
        assert ours == dict(FOUND_BY_AWS.findall(header)), header


def _is_awss(name: str) -> bool:
    return re.fullmatch("tfs-[a-z-]+", name) is not None


@each("letters", ["tfs-", "tfs-=", "tfs-a", "a", "a=", "=", ";tfs-a;"])
def test_a_long_header_takes_no_longer_than_it_is(letters: str) -> None:
    # A search that restarts at each letter would take hours here.
    parse_custom_attributes(letters * 500_000)
