"""``X-Amzn-SageMaker-Custom-Attributes``: how a request chooses model, version, transport and more."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lightbox.base.errors import BadRequest
from lightbox.images.lazy_image import Crop
from lightbox.model.spec import Method

CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"
"""Names a model's folder or archive in multi-model mode."""
CROP = "tfs-crop"
OUTPUTS = "tfs-outputs"
"""A pair whose value holds commas."""
KNOWN_PAIRS = (
    "tfs-model-name",
    "tfs-model-version",
    "tfs-method",
    "tfs-signature-name",
    "tfs-transport",
    CROP,
    OUTPUTS,
)
"""The custom attributes of Lightbox; pairs with another prefix are for handlers and others."""


@dataclass(frozen=True)
class CustomAttributes:
    """The pairs of the header. ``text`` is the raw header, None if absent. An empty value chooses the default.

    Each property raises BadRequest if its own pair is malformed.
    """

    pairs: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None

    @classmethod
    def read(cls, text: str | None) -> CustomAttributes:
        """Return the attributes of a header."""
        return cls(parse_custom_attributes(text or ""), text)

    @property
    def model(self) -> str | None:
        """The chosen model."""
        return self.pairs.get("tfs-model-name") or None

    @property
    def version(self) -> int | None:
        """The chosen version."""
        return parse_version(self.pairs.get("tfs-model-version"))

    @property
    def method(self) -> Method:
        """The chosen method."""
        return parse_method(self.pairs.get("tfs-method"))

    @property
    def signature(self) -> str | None:
        """The chosen signature."""
        return self.pairs.get("tfs-signature-name") or None

    @property
    def transport(self) -> str | None:
        """The chosen transport."""
        return self.pairs.get("tfs-transport") or None

    @property
    def crop(self) -> Crop | None:
        """The chosen part of the image."""
        return parse_crop(self.pairs.get(CROP))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The chosen outputs, each once."""
        return tuple(dict.fromkeys(self.pairs.get(OUTPUTS, "").replace(",", " ").split()))

    def check_names(self) -> None:
        """Raise BadRequest for an unknown pair whose name begins with ``tfs-``."""
        for name in self.pairs:
            if name.lower().startswith("tfs-") and name not in KNOWN_PAIRS:
                close = meant(name)
                hint = f"did you mean {close}?" if close else f"expected one of {', '.join(KNOWN_PAIRS)}"
                raise BadRequest(f"custom attribute {name[:100]}: there is no such attribute; {hint}")


def meant(name: str) -> str | None:
    """Return the known pair with the most similar name."""
    full = "tfs-" + name[:100].lower().replace("_", "-").removeprefix("tfs-")
    return next(iter(difflib.get_close_matches(full, KNOWN_PAIRS, n=1, cutoff=0.7)), None)


# Each run is matched once, from its first letter: the time is linear in the header's length.
_NAME = re.compile(r"(?<![a-z-])([a-z-]++)=")
_NUMBER = re.compile(r"\s*[+-]?[0-9.]++\s*")
_CROP = re.compile(r"([0-9]{1,6}),([0-9]{1,6}),([0-9]{1,6}),([0-9]{1,6})")


def parse_custom_attributes(header: str) -> dict[str, str]:
    """Return the ``name=value`` pairs of a comma-separated header; the last one of each name wins.

    As in AWS's container, a pair that begins with ``tfs-`` is found anywhere, such as after ``trace=1;`` or a blank,
    and its value ends at the next comma. A ``tfs-`` pair without a value is ignored, as is text that is not a pair.
    """
    attributes: dict[str, str] = {}
    parts = header.split(",")
    for place, part in enumerate(parts):
        name, equals, value = part.partition("=")
        if equals and (name := name.strip()) and (value.strip() or not name.startswith("tfs-")):
            attributes[name] = value.strip()
        attributes |= _tfs_pair(part)
        for name, is_more in _LISTS.items():
            if name in attributes and f"{name}=" in part:  # its value has commas
                rest = itertools.takewhile(is_more, parts[place + 1 :])
                attributes[name] = ",".join([attributes[name], *map(str.strip, rest)])
    return attributes


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def _is_name(text: str) -> bool:
    return bool(text.strip()) and "=" not in text


_LISTS: dict[str, Callable[[str], bool]] = {CROP: _is_number, OUTPUTS: _is_name}
"""Pairs whose values may contain commas, and the form of each further part."""


def _tfs_pair(part: str) -> dict[str, str]:
    """Return the first ``tfs-`` pair between two commas, if there is one."""
    for found in _NAME.finditer(part):
        _, prefix, rest = found[1].partition("tfs-")
        if prefix and rest and (value := part[found.end() :].strip()):
            return {prefix + rest: value}
    return {}


def parse_version(text: str | None) -> int | None:
    """Return the number in ``tfs-model-version``, None if absent; raise BadRequest for another text."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest(f"tfs-model-version: expected a whole number, got {text!r}")
    return int(text)


def parse_crop(text: str | None) -> Crop | None:
    """Return the part of an image in ``tfs-crop``, None if absent; raise BadRequest for another text."""
    if not text:
        return None
    match = _CROP.fullmatch(text)
    if match is None:
        raise BadRequest(f"tfs-crop: expected x,y,width,height in whole pixels, such as 0,0,640,480; got {text!r}")
    return Crop(*map(int, match.groups()))


def parse_method(text: str | None) -> Method:
    """Return the method in ``tfs-method``; raise BadRequest for another text."""
    try:
        return Method(text) if text else Method.PREDICT
    except ValueError:
        raise BadRequest(f"tfs-method: expected predict, classify or regress, got {text!r}") from None
