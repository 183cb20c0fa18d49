"""The headers Content-Type and Accept, read as RFC 9110 has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_PARAMETER = re.compile(r';[ \t]*([!#$%&\'*+.^_`|~\w-]+)=("(?:[^"\\]|\\.)*"|[^;]*)', re.ASCII)
_QUALITY = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?|\.\d{1,3})", re.ASCII)
_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')


@dataclass(frozen=True)
class ContentType:
    """A media type in lower case, such as ``text/csv``, and its parameters; "" where none was given."""

    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_content_type(header: str) -> ContentType:
    """Return the media type of a raw Content-Type header."""
    name, semicolon, rest = header.partition(";")
    return ContentType(name.strip().lower(), _parameters(semicolon + rest))


def _parameters(text: str) -> dict[str, str]:
    found = ((name.lower(), _unquoted(value.strip())) for name, value in _PARAMETER.findall(text))
    return dict(found)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


@dataclass(frozen=True)
class MediaRange:
    """One element of an Accept header: ``text/*;q=0.5``. A higher ``specificity`` overrules a lower one."""

    main: str
    sub: str
    quality: float

    @property
    def specificity(self) -> int:
        """0 for ``*/*``, 1 for ``text/*``, 2 for ``text/csv``."""
        return (self.main != "*") + (self.sub != "*")

    def matches(self, media_type: str) -> bool:
        """Whether a media type lies in this range; parameters do not count."""
        main, _, sub = media_type.partition("/")
        return self.main in ("*", main) and self.sub in ("*", sub)


def parse_accept(header: str) -> list[MediaRange]:
    """Return the ranges of an Accept header in their order; what is no range is left out."""
    return list(_ranges(header))


def _ranges(header: str) -> Iterator[MediaRange]:
    for element in _ELEMENT.findall(header):
        parsed = parse_content_type(element)
        # "*" alone is what old Java clients send.
        main, slash, sub = (parsed.name if parsed.name != "*" else "*/*").partition("/")
        quality = parsed.parameters.get("q", "1")
        if main and slash and sub and (main != "*" or sub == "*") and _QUALITY.fullmatch(quality):
            yield MediaRange(main, sub, float(quality))


def best_match(header: str, servable: Sequence[str]) -> str | None:
    """Return the media type of ``servable`` that an Accept header likes best, None if it refuses them all.

    Without a header the first. Among types of the same quality the one named more exactly wins, then the
    one named earlier, then the earlier of ``servable`` (RFC 9110, 12.5.1 leaves that to the server).
    """
    if not header.strip():
        return servable[0]
    ranges = parse_accept(header)
    best, best_rank = None, (0.0, 0, 0)
    for media_type in servable:
        matching = [(item.specificity, -place) for place, item in enumerate(ranges) if item.matches(media_type)]
        if matching:
            specificity, place = max(matching)
            rank = (ranges[-place].quality, specificity, place)
            if rank[0] > 0 and (best is None or rank > best_rank):
                best, best_rank = media_type, rank
    return best
