"""The page's layout and accessibility (axe-core), narrow and dark; its snippets run as shown.

Leaves screenshots in build/page. docs/images has classes-light and digits-dark, 900 pixels wide and cut to 1150.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lightbox.features.page import FILES
from support.browser import Page
from support.patience import PATIENCE
from support.stack import Stack

DIGIT = FILES / "samples" / "digit-7.png"
TOOLS = ("curl", "boto3", "tritonclient", "requests")
AWKWARD = 'it\'s "my" $HOME digit.png'


def test_accessible_and_never_wider_than_the_window(page: Page) -> None:
    assert page.violations() == []
    page.sample("coffee.jpg")
    page.run("repeat")
    page.screenshot("classes-light", 1300, "light")
    assert page.violations() == []
    page.sample("digit-7.png")
    page.choose("model", "named_digits")
    page.run("repeat")
    page.screenshot("digits-dark", 1300, "dark")
    assert page.violations() == []
    page.sample("coffee.jpg")
    page.choose("model", "boxes")
    page.run()
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
    """The text of each snippet as shown."""
    page.wire(wire)
    found = {}
    for tool in TOOLS:
        page.press(f"#tab-{tool}")
        found[tool] = page.text("#code")
    return found


@pytest.mark.parametrize("wire", ["rest", "both"])
def test_each_snippet_runs_as_shown(page: Page, page_stack: Stack, tmp_path: Path, wire: str) -> None:
    """All four run at once; each prints the server's scores, once for each wire."""
    name = AWKWARD if wire == "rest" else "digit-7.png"
    page.give("drop", name, base64.b64encode(DIGIT.read_bytes()).decode())
    page.choose("model", "digits")
    page.choose("version", "1")
    (tmp_path / name).write_bytes(DIGIT.read_bytes())
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
        printed, complaint = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, complaint
        lists = re.findall(r"\[\s*(\d[^\[\]]*)\]", printed)
        found = [np.array(re.split(r"[,\s]+", text.strip()), float) for text in lists]
        answers = [numbers for numbers in found if len(numbers) == 10]
        assert len(answers) == (2 if wire == "both" else 1), f"{tool}: {printed}"
        for numbers in answers:
            np.testing.assert_allclose(numbers, scores, rtol=1e-3, atol=1e-6)
