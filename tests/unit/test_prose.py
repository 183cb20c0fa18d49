"""Pages, errors and logs use the words that CONTRIBUTING.md recommends."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.parameters import each
from support.stack import REPOSITORY

BETTER = {
    r"spared": "saved",
    r"mends?|mended": "fix, fixed",
    r"told|tells": "reported, returned; says which part of the program reports what to whom",
    r"whoever|nobody|somebody": "the reader, the caller, the process: whom it is about",
    r"by the whole way": "end to end",
    r"mean nothing": "are meaningless",
    r"the stand-in": "the embedded model server",
    r"answers are (TensorFlow|equal)": "results match TensorFlow's",
    r"may be left out": "is optional",
    r"in place of": "instead of",
    r"the other way (a)?round": "the reverse",
}
"""Patterns of words that a page does not use, and what says it better."""
PATTERN = re.compile("|".join(rf"\b(?:{words})\b" for words in BETTER), re.IGNORECASE)
PAGES = [*REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md"]
MODULES = sorted((REPOSITORY / "container" / "lightbox").rglob("*.py"))


def prose(page: str) -> str:
    """Return a page without code blocks and inline code. Line numbers stay the same."""
    page = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`|\]\([^)\n]*\)", "", page)


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of a module's strings that read like a sentence, except docstrings."""
    source = module.read_text()
    if not PATTERN.search(source):  # to parse all modules takes seconds
        return
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from [(node.lineno, node.value)] if node.value.count(" ") > 2 else []


@each("page", PAGES)
def test_pages_use_the_fields_words(page: Path) -> None:
    lines = prose(page.read_text()).splitlines()
    found = [f"line {number}: {match[0]!r}" for number, line in enumerate(lines, 1) for match in PATTERN.finditer(line)]
    assert found == [], f"CONTRIBUTING.md has better words: {BETTER}"


def test_errors_and_logs_use_the_fields_words() -> None:
    found = [
        f"{module.relative_to(REPOSITORY)}:{line}: {match[0]!r} in {text!r}"
        for module in MODULES
        for line, text in texts(module)
        for match in PATTERN.finditer(text)
    ]
    assert found == [], f"CONTRIBUTING.md has better words: {BETTER}"


def test_no_docstring_begins_with_what() -> None:
    modules = [file for top in ("code", "container", "scripts", "tests") for file in (REPOSITORY / top).rglob("*.py")]
    what = '"""' + "What "
    assert [str(file.relative_to(REPOSITORY)) for file in modules if what in file.read_text()] == []
