"""A headless Chromium on the page to try models: user actions, displayed content, recorded responses."""

from __future__ import annotations

import importlib.util
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from lightbox.features.page import FILES
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY

SCREENSHOTS = REPOSITORY / "build" / "page"
_RECORD = """
window.recorded = [];
window.pending = 0;
const original = window.fetch;
window.fetch = async (url, options = {}) => {
  window.pending += 1;
  const answer = await original(url, options).finally(() => { window.pending -= 1; });
  window.pending += 1;
  const copy = answer.clone();
  copy.text().then((text) => window.recorded.push({
    url, text, status: answer.status, headers: Object.fromEntries(answer.headers), sent: {...options.headers},
    bytes: new TextEncoder().encode(text).length,
  })).finally(() => { window.pending -= 1; });
  return answer;
};
"""
_FILE = """
const [name, size, data] = arguments;
const content = data === null ? new Uint8Array(size) : Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
const transfer = new DataTransfer();
transfer.items.add(new File([content], name));
"""


class Page:
    """The page in a browser. ``recorded`` are the server's responses to its scripts, in order."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, path: str = "/") -> Page:
        """Load the page anew, in light colours and wide, and wait until it has the models."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.online(True)
        self.look(1300, "light")
        self.driver.get(self.url + path)
        self.wait_for("document.body.dataset.ready")
        return self

    def js(self, script: str, *arguments: Any) -> Any:
        """Return the result of a script."""
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, expression: str) -> None:
        """Wait until an expression of JavaScript holds."""
        self.wait_until(lambda: bool(self.js(f"return Boolean({expression})")), expression)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until ``holds``; fail with the page's text after a long time."""
        assert any(holds() for _ in poll(pause=0.02)), f"{what}; the page: {self.text('body')[:3000]}"

    def element(self, selector: str) -> Any:
        """Return the first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def press(self, selector: str) -> None:
        """Click an element after a scroll into view: a driver does not scroll to one behind the bar of buttons."""
        element = self.element(selector)
        self.js("arguments[0].scrollIntoView({block: 'nearest'})", element)
        element.click()

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        return str(self.element(selector).text)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements of a selector, visible or not."""
        return cast(
            list[str], self.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)
        )

    def rows(self, selector: str) -> list[list[str]]:
        """Return the cells of a table's body."""
        return cast(
            list[list[str]],
            self.js(
                "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
                ".map((row) => [...row.cells].map((cell) => cell.innerText))",
                selector,
            ),
        )

    def recorded(self, url: str = "/invocations") -> list[dict[str, Any]]:
        """Return the responses to the page's requests to a route, but not drawn pictures."""
        answers = (answer for answer in self.js("return window.recorded") if answer["url"] == url)
        return [answer for answer in answers if answer["sent"].get("Accept") != "image/jpeg"]

    def picture(self) -> tuple[tuple[int, int], Any]:
        """Return the size of the picture that is shown, and some of its pixels: each eighth of each eighth row."""
        found = self.js(
            "const image = document.querySelector('#stage img'), canvas = document.createElement('canvas');"
            "const [width, height] = [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];"
            "const drawing = canvas.getContext('2d'); drawing.drawImage(image, 0, 0);"
            "const all = drawing.getImageData(0, 0, width, height).data, some = [];"
            "for (let y = 0; y < height; y += 8) for (let x = 0; x < width; x += 8)"
            " some.push([...all.slice(4 * (y * width + x), 4 * (y * width + x) + 3)]);"
            "return [[width, height], some]"
        )
        return (found[0][0], found[0][1]), found[1]

    def sample(self, name: str) -> None:
        """Drop the file of a sample, which does not run it."""
        self.give("drop", name, b64encode((FILES / "samples" / name).read_bytes()).decode())

    def shown(self, name: str) -> None:
        """Wait until an image is selected."""
        self.wait_until(lambda: bool(self.js("return stage.dataset.ready === arguments[0]", name)), f"{name} is shown")

    def give(self, kind: str, name: str, data: str | None, size: int = 0) -> None:
        """Drop or paste a file: base64 in ``data``, or ``size`` zeros."""
        event = {
            "drop": "document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, bubbles: true}))",
            "paste": "document.dispatchEvent(new ClipboardEvent('paste', {clipboardData: transfer}))",
        }[kind]
        self.js(f"{_FILE} {event}", name, size, data)
        self.shown(name)

    def choose(self, field: str, value: str) -> None:
        """Choose from one of the lists; wait until the page has read about the model."""
        done = len(self.js("return window.recorded"))
        self.js(
            "const list = document.getElementById(arguments[0]); list.value = arguments[1];"
            "list.dispatchEvent(new Event('change'))",
            field,
            value,
        )
        if field != "signature":
            self.wait_until(lambda: len(self.js("return window.recorded")) > done, f"{value} is read about")
            self.wait_for("document.getElementById('model-facts').innerText")

    def wire(self, name: str) -> None:
        """Choose a wire, or both."""
        self.js("compare.open = true; document.querySelector(`input[value=${arguments[0]}]`).click()", name)

    def run(self, button: str = "run") -> list[dict[str, Any]]:
        """Press a button that sends the image; return the responses."""
        done = len(self.recorded())
        self.press(f"#{button}")
        self.settle()
        return self.recorded()[done:]

    def settle(self) -> None:
        """Wait until no run is in progress and all responses are recorded."""
        self.wait_for("!document.getElementById('run').disabled && window.pending === 0")

    def look(self, width: int, scheme: str, height: int = 1000) -> None:
        """Set the window's width in pixels, and light or dark colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def online(self, is_online: bool) -> None:
        """Take the browser offline, or online again."""
        conditions = {"offline": not is_online, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def screenshot(self, name: str, width: int, scheme: str) -> None:
        """Write the whole page as a picture below ``build/page``, where CI keeps it."""
        self.look(width, scheme)
        self.look(width, scheme, self.js("return document.documentElement.scrollHeight"))
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def violations(self) -> list[str]:
        """Return axe-core's accessibility violations, one line each."""
        if not self.js("return Boolean(window.axe)"):
            package = importlib.util.find_spec("axe_playwright_python")
            assert package is not None and package.origin is not None
            self.js(Path(package.origin).with_name("axe.min.js").read_text())
        found = self.driver.execute_async_script("axe.run().then(arguments[0])")
        assert len(found["passes"]) > 10
        return [f"{rule['id']}: {node['html'][:200]}" for rule in found["violations"] for node in rule["nodes"]]

    def complaints(self) -> list[str]:
        """Return the new browser console messages since the last call: script errors, policy violations."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def browser() -> Iterator[Any]:
    """Start Debian's Chromium headless; it records the scripts' fetches."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    assert all(programs), "Chromium or its driver is missing: run 'make browser', which installs Debian's packages"
    options = webdriver.ChromeOptions()
    options.binary_location = cast(str, programs[0])
    flags = [
        "headless=new",
        "disable-gpu",
        "disable-dev-shm-usage",
        "no-first-run",
        "disable-sync",
        "disable-extensions",
    ]
    flags += ["disable-background-networking", "disable-component-update", "disable-default-apps", "lang=en"]
    if os.geteuid() == 0:  # Chromium's sandbox does not start as root
        flags.append("no-sandbox")
    for flag in flags:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    driver.set_script_timeout(PATIENCE)
    driver.command_executor.client_config.timeout = PATIENCE
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _RECORD})
        yield driver
    finally:
        driver.quit()
