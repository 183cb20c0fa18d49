"""mkdocs.yml lists every page."""

from __future__ import annotations

import re

from support.stack import REPOSITORY

LISTED = re.findall(r": (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE)


def test_every_page_is_listed_once() -> None:
    docs = REPOSITORY / "docs"
    pages = {page for page in docs.rglob("*.md") if page.parent.name != "adr"} | {docs / "adr" / "README.md"}
    assert sorted(LISTED) == sorted(["README.md", *(str(page.relative_to(REPOSITORY)) for page in pages)])
