"""Content-Type and Accept as callers write them."""

from __future__ import annotations

from lightbox.codecs.media_type import best_match, parse_content_type
from support.parameters import each

SERVABLE = ("application/json", "application/jsonlines", "text/csv", "application/x-npy")


@each(
    ("header", "name", "parameters"),
    [
        ("", "", {}),
        ("text/csv", "text/csv", {}),
        (" Text/CSV ; Charset=UTF-8", "text/csv", {"charset": "UTF-8"}),
        ('application/json;charset="utf-8"; x=1', "application/json", {"charset": "utf-8", "x": "1"}),
        (r'multipart/form-data; boundary="a\"b;c"', "multipart/form-data", {"boundary": 'a"b;c'}),
        ("application/json;", "application/json", {}),
        (";charset=utf-8", "", {"charset": "utf-8"}),
    ],
)
def test_a_content_type_and_its_parameters(header: str, name: str, parameters: dict[str, str]) -> None:
    parsed = parse_content_type(header)
    assert (parsed.name, parsed.parameters) == (name, parameters)


@each(
    ("accept", "chosen"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("*", "application/json"),
        ("application/*", "application/json"),
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("text/*", "text/csv"),
        ("text/csv", "text/csv"),
        ("text/csv;q=0.5, application/jsonlines;q=0.6", "application/jsonlines"),
        ("text/csv;q=0.5, application/json;q=0.4, */*;q=0.1", "text/csv"),
        ("text/csv, */*", "text/csv"),
        ("*/*, text/csv", "text/csv"),
        ("text/csv, application/json", "text/csv"),
        ("application/json, text/csv", "application/json"),
        ("text/html, application/xhtml+xml, */*;q=0.8", "application/json"),
        ("application/json;q=0, */*", "application/jsonlines"),
        ("application/*;q=0.5, application/json;q=0.1", "application/jsonlines"),
        ("*/*;q=0.1, text/*;q=0", "application/json"),
        ("text/csv;q=1.000", "text/csv"),
        ("text/csv;q=.5", "text/csv"),
        ("text/csv;Q=0, text/csv", None),
        ("application/json;q=0", None),
        ("*/*;q=0", None),
        ("*/*;q=0.0, text/csv;q=0.001", "text/csv"),
        ("text/html", None),
        ("json", None),
        ("*/csv", None),
        ("text/csv;q=2", None),
        ("text/csv;q=x", None),
        (",,", None),
        ('text/html;a="application/json, text/csv"', None),
    ],
)
def test_the_media_type_that_a_caller_likes_best(accept: str, chosen: str | None) -> None:
    assert best_match(accept, SERVABLE) == chosen
