"""docs/README.md links every page, and docs/troubleshooting.md quotes errors that exist."""

from __future__ import annotations

import ast
import re
from functools import cache

from support.parameters import each
from support.stack import REPOSITORY
from support.troubleshooting import pattern, quoted

DOCS = REPOSITORY / "docs"
LEAST = 10
"""Characters of a quoted text without values that must stand in the sources as they are."""


def test_the_index_links_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#:]+)", index)}
    pages = {page.resolve() for page in DOCS.rglob("*.md") if page.parent.name != "adr"} - {
        (DOCS / "README.md").resolve()
    }
    assert len(pages) > 20
    assert pages - linked == set()
    assert (DOCS / "adr" / "README.md").resolve() in linked


@cache
def texts() -> tuple[str, ...]:
    """Return every string of the sources except docstrings, with an ellipsis for each value."""
    found = []
    for module in (REPOSITORY / "container").rglob("*.py"):
        tree = ast.parse(module.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found.append(node.value)
    return tuple(found)


def test_the_page_quotes_errors() -> None:
    assert len(quoted()) > 35


@each("text", quoted())
def test_a_quoted_error_is_one_of_the_sources(text: str) -> None:
    assert sum(len(part.strip()) for part in text.split("…")) >= LEAST
    like = pattern(text)
    assert any(like.search(source) for source in texts()), "no text of the sources reads like that"
