"""Use of the page: three ways to give a file, the keyboard, and a copied snippet."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from lightbox.features.page import FILES
from support.browser import Page

COFFEE = FILES / "samples" / "coffee.jpg"


def in_focus(page: Page) -> str:
    """Return the focused element's id or text."""
    return str(page.js("const e = document.activeElement; return e.id || e.value || e.innerText"))


def press(page: Page, *keys: str) -> None:
    """Press keys at the focused element."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    for key in keys:
        ActionChains(page.driver).send_keys(getattr(Keys, key)).perform()


def tab_to(page: Page, name: str) -> None:
    """Move to an element with the tabulator key alone."""
    for _ in range(40):
        if in_focus(page) == name:
            return
        press(page, "TAB")
    pytest.fail(f"the tabulator does not reach {name}")


def pick(page: Page) -> None:
    page.element("#file").send_keys(str(COFFEE))
    page.shown("coffee.jpg")


def drop(page: Page) -> None:
    page.give("drop", "coffee.jpg", base64.b64encode(COFFEE.read_bytes()).decode())


def paste(page: Page) -> None:
    page.give("paste", "coffee.jpg", base64.b64encode(COFFEE.read_bytes()).decode())


@pytest.mark.parametrize("way", [pick, drop, paste])
def test_a_file_is_picked_dropped_or_pasted(page: Page, way: Callable[[Page], None]) -> None:
    way(page)
    page.choose("model", "image_mean")
    page.wire("local")
    (answer,) = page.run()
    assert answer["status"] == 200
    assert f"{COFFEE.stat().st_size:,} bytes" in page.text("[data-wire=local] .facts")


def test_all_by_keyboard(page: Page) -> None:
    tab_to(page, "Digit")
    press(page, "ENTER")
    page.shown("digit-7.png")
    page.settle()
    tab_to(page, "model")
    press(page, "ARROW_DOWN")  # from efficientnet_lite0 to image_mean
    page.wait_for("document.getElementById('model-facts').innerText.includes('mean')")
    tab_to(page, "both")
    press(page, "ARROW_LEFT", "ARROW_LEFT")
    tab_to(page, "run")
    press(page, "ENTER")
    page.wait_for("document.querySelector('.answer')")
    page.settle()
    assert page.texts(".answer h3") == ["gRPC"]
    assert page.recorded()[0]["status"] == 200
    tab_to(page, "tab-curl")
    press(page, "ARROW_RIGHT")
    assert in_focus(page) == "tab-boto3"
    assert page.text("#code").startswith("import json")
    press(page, "ARROW_LEFT", "ARROW_LEFT")
    assert in_focus(page) == "tab-requests"
    assert page.js("return document.querySelectorAll('[role=tab][tabindex=\"-1\"]').length") == 3


def test_runs_are_stopped(page: Page) -> None:
    page.sample("coffee.jpg")
    page.js("document.getElementById('repeat').click(); document.getElementById('stop').click()")
    page.wait_for("document.getElementById('status').innerText === 'Stopped.'")
    page.settle()
    assert page.texts(".answer") == []
    assert {answer["status"] for answer in page.run()} == {200}


def test_a_snippet_is_copied(page: Page) -> None:
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"origin": page.url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    page.js(
        "const button = document.getElementById('copy'); window.said = [];"
        "new MutationObserver(() => window.said.push(button.textContent)).observe(button, {childList: true})"
    )
    page.press("#copy")
    page.wait_for("window.said.includes('Copied')")  # shown for two seconds
    copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == page.js("return document.getElementById('code').textContent")
    assert page.text("#status") == "The snippet is in the clipboard."
