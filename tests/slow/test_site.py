"""The pages as a site: `make docs` renders every page, and its search finds them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from support import commands
from support.browser import Page
from support.http_server import serving
from support.isolation import clean_environ
from support.patience import poll
from support.stack import REPOSITORY

SHADOW = """
const all = (root) => [...root.querySelectorAll("*")];
const parts = all(document).flatMap((e) => e.shadowRoot ? all(e.shadowRoot) : []);
"""
SITE = REPOSITORY / "build" / "site"
PAGES = sorted(page.relative_to(REPOSITORY) for page in (REPOSITORY / "docs").rglob("*.md"))

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def site() -> Path:
    shutil.rmtree(SITE, ignore_errors=True)
    commands.output(["make", "docs"], clean_environ(), REPOSITORY, patience=None)
    return SITE


def rendered(page: Path) -> Path:
    return SITE / page.with_name("index.html" if page.name == "README.md" else f"{page.stem}.html")


def test_every_page_is_rendered_and_searched(site: Path) -> None:
    assert len(PAGES) > 40
    assert [page for page in PAGES if not rendered(page).is_file()] == []
    searched = {item["location"].partition("#")[0] for item in json.loads((site / "search.json").read_text())["items"]}
    assert {str(rendered(page).relative_to(site)) for page in PAGES} - searched == set()


def test_search_leads_to_a_page(site: Path, chromium: Any) -> None:
    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(site))

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    with serving(Files) as url:
        Page(chromium, url).look(1300, "light")
        chromium.get(f"{url}/index.html")
        # The dialog is in a shadow tree; a click on the button in the page's header opens it.
        box = found(chromium, lambda: chromium.execute_script(f"{SHADOW} return parts.find((e) => e.matches('input'))"))
        chromium.find_element(By.CSS_SELECTOR, ".md-search__button").click()
        found(chromium, box.is_displayed)
        box.send_keys("LIGHTBOX_MAX_WAITING")
        results = (
            f"{SHADOW} return parts.map((e) => e.href || '').filter((link) => link.includes('/docs/settings.html'))"
        )
        assert found(chromium, lambda: chromium.execute_script(results))


def found(chromium: Any, look: Callable[[], Any]) -> Any:
    """Wait until there is a result."""
    for _ in poll():
        if there := look():
            return there
    pytest.fail(f"not there: {chromium.page_source[:2000]}")
