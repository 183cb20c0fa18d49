"""How the page is used: files in three ways, by keyboard, with a screen reader, narrow and dark; its snippets run."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lightbox.processes.page import FILES
from support.browser import Page
from support.stack import Stack

FLOWER = FILES / "samples" / "flower.jpg"
DIGIT = FILES / "samples" / "digit-7.png"
TOOLS = ("curl", "boto3", "tritonclient", "requests")


def in_focus(page: Page) -> str:
    """What has the focus: its id, or the text on it."""
    return str(page.js("const e = document.activeElement; return e.id || e.value || e.innerText"))


def press(page: Page, *keys: str) -> None:
    """Press keys where the focus is."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    for key in keys:
        ActionChains(page.driver).send_keys(getattr(Keys, key)).perform()


def tab_to(page: Page, name: str) -> None:
    """Go to an element with the tabulator alone."""
    for _ in range(40):
        if in_focus(page) == name:
            return
        press(page, "TAB")
    pytest.fail(f"the tabulator does not reach {name}")


def pick(page: Page) -> None:
    page.element("#file").send_keys(str(FLOWER))
    page.shown("flower.jpg")


def drop(page: Page) -> None:
    page.give("drop", "flower.jpg", base64.b64encode(FLOWER.read_bytes()).decode())


def paste(page: Page) -> None:
    page.give("paste", "flower.jpg", base64.b64encode(FLOWER.read_bytes()).decode())


@pytest.mark.parametrize("way", [pick, drop, paste])
def test_a_file_is_picked_dropped_or_pasted(page: Page, way: Callable[[Page], None]) -> None:
    way(page)
    page.choose("model", "image_mean")
    page.wire("grpc")
    (answer,) = page.run()
    assert answer["status"] == 200
    assert f"{FLOWER.stat().st_size:,} bytes" in page.text("[data-wire=grpc] .facts")


def test_all_by_keyboard(page: Page) -> None:
    tab_to(page, "Digit")
    press(page, "ENTER")
    page.shown("digit-7.png")
    tab_to(page, "model")
    press(page, "ARROW_UP")  # from mobilenet_v2 to image_mean
    page.wait_for("document.getElementById('model-facts').innerText.includes('mean')")
    tab_to(page, "both")
    press(page, "ARROW_LEFT", "ARROW_LEFT")
    tab_to(page, "run")
    press(page, "ENTER")
    page.wait_for("document.querySelector('.answer')")
    assert page.texts(".answer h3") == ["gRPC"]
    assert page.recorded()[0]["status"] == 200
    tab_to(page, "tab-curl")
    press(page, "ARROW_RIGHT")
    assert in_focus(page) == "tab-boto3"
    assert page.text("#code").startswith("import json")
    press(page, "ARROW_LEFT", "ARROW_LEFT")
    assert in_focus(page) == "tab-requests"
    assert page.js("return document.querySelectorAll('[role=tab][tabindex=\"-1\"]').length") == 3


def test_accessible_and_never_wider_than_the_window(page: Page) -> None:
    assert page.violations() == []
    page.sample("flower.jpg")
    page.run("repeat")
    page.wait_for("!document.getElementById('run').disabled")
    page.screenshot("classes-light", 1300, "light")
    assert page.violations() == []
    page.choose("model", "boxes")
    page.run()
    for width, scheme in ((1300, "dark"), (360, "light"), (360, "dark"), (2000, "light")):
        page.screenshot(f"boxes-{width}-{scheme}", width, scheme)
        assert page.js("return document.documentElement.scrollWidth") <= width
        assert page.violations() == [], (width, scheme)
    page.choose("model", "image_mean")
    page.run()
    page.screenshot("numbers-360", 360, "light")
    assert page.violations() == []
    page.give("drop", "notes.txt", base64.b64encode(b"no image").decode())
    page.run()
    page.screenshot("error-dark", 1300, "dark")
    assert page.violations() == []
    assert page.element("#status").get_attribute("aria-live") == "polite"
    assert all("status of 400" in complaint for complaint in page.complaints())


def snippets(page: Page, wire: str) -> dict[str, str]:
    """The text of each snippet as it is shown."""
    page.wire(wire)
    found = {}
    for tool in TOOLS:
        page.element(f"#tab-{tool}").click()
        found[tool] = page.text("#code")
    return found


@pytest.mark.parametrize("wire", ["rest", "both"])
def test_each_snippet_runs_as_shown(page: Page, page_stack: Stack, tmp_path: Path, wire: str) -> None:
    """All four at once; each prints the scores that the server answers, once for each wire."""
    page.sample("digit-7.png")
    page.choose("model", "digits")
    page.choose("version", "1")
    (tmp_path / "digit-7.png").write_bytes(DIGIT.read_bytes())
    attributes = "tfs-model-name=digits"
    sent = {"X_Amzn_SageMaker_Custom_Attributes": attributes, "Content_Type": "application/x-image"}
    (scores,) = page_stack.invoke(DIGIT.read_bytes(), **sent).json()["predictions"]
    started = {}
    for tool, text in snippets(page, wire).items():
        program = ["bash", "-euc", text] if tool == "curl" else [sys.executable, "-W", "ignore", "-c", text]
        started[tool] = subprocess.Popen(
            program, cwd=tmp_path, env=dict(os.environ), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    for tool, process in started.items():
        printed, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint
        lists = re.findall(r"\[\s*(\d[^\[\]]*)\]", printed)
        found = [np.array(re.split(r"[,\s]+", text.strip()), float) for text in lists]
        answers = [numbers for numbers in found if len(numbers) == 10]
        assert len(answers) == (2 if wire == "both" else 1), f"{tool}: {printed}"
        for numbers in answers:
            np.testing.assert_allclose(numbers, scores, rtol=1e-3, atol=1e-6)


def test_a_snippet_is_copied(page: Page) -> None:
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"origin": page.url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    page.element("#copy").click()
    page.wait_for("document.getElementById('copy').innerText === 'Copied'")
    copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == page.js("return document.getElementById('code').textContent")
    assert page.text("#status") == "The snippet is in the clipboard."
