"""The options of a stream's frames: the pairs of the opening request's query and of text frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl

from lightbox.base.errors import BadRequest

FRAME_TYPE = "application/x-image"
"""The default content type of frames: any image format."""
_MOST_PAIRS, _MOST_CHARACTERS = 50, 1024
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Choice:
    """``attributes`` become the custom attributes of each frame's request; ``latest`` drops stale frames."""

    latest: bool = False
    content_type: str = FRAME_TYPE
    accept: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """Return the headers of a frame's request."""
        result = {"Content-Type": self.content_type}
        if self.accept is not None:
            result["Accept"] = self.accept
        if self.attributes:
            pairs = ",".join(f"{name}={value}" for name, value in self.attributes.items())
            result["X-Amzn-SageMaker-Custom-Attributes"] = pairs
        return result

    def with_pairs(self, pairs: Iterable[tuple[str, str]]) -> Choice:
        """Return the options with these pairs in place of earlier ones of the same names. Raises BadRequest."""
        chosen = replace(self, attributes=dict(self.attributes))
        for name, value in pairs:
            _check(name, value)
            if name == "latest":
                if value.lower() not in _TRUTH:
                    raise BadRequest(f"latest: expected true or false, got {value!r}")
                chosen = replace(chosen, latest=_TRUTH[value.lower()])
            elif name == "content-type":
                chosen = replace(chosen, content_type=value)
            elif name == "accept":
                chosen = replace(chosen, accept=value)
            else:
                chosen.attributes[name] = value
        length = sum(len(name) + len(value) + 2 for name, value in chosen.attributes.items())
        if length > _MOST_CHARACTERS:
            raise BadRequest(f"attributes: expected {_MOST_CHARACTERS} characters in all at most, got {length}")
        return chosen


def from_query(query: str) -> Choice:
    """Return the options in the query of the opening request. Raises BadRequest."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PAIRS)
    except ValueError:
        raise BadRequest(f"query: expected {_MOST_PAIRS} pairs at most, got more") from None
    return Choice().with_pairs(pairs)


def from_text(text: str, before: Choice) -> Choice:
    """Return the options after a text frame, ``name=value,name=value``. Raises BadRequest."""
    pairs = []
    for part in text[: 2 * _MOST_CHARACTERS].split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise BadRequest(f"text frame: expected name=value pairs between commas, got {part.strip()[:100]!r}")
        pairs.append((name.strip(), value.strip()))
    return before.with_pairs(pairs)


def _check(name: str, value: str) -> None:
    """Raise BadRequest for a name or value that is invalid in a header, or would be several pairs in it."""
    if not (name and (name + value).isascii() and (name + value).isprintable()) or "," in name + value or "=" in name:
        raise BadRequest(f"{name[:100]!r}: expected a name and a value of plain ASCII, no commas; got {value[:100]!r}")
