"""Errors on the page: the page's own message, the server's message, and the request's id."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from support.browser import Page
from support.stack import Stack


def png(width: int, height: int) -> str:
    """Return a black image in base64, which compresses to few bytes."""
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "png")
    return base64.b64encode(buffer.getvalue()).decode()


def expect(page: Page, answer: dict[str, Any], words: str) -> None:
    """Expect the page's message, the server's message, status, code and id. Expect nothing more in the console."""
    body = json.loads(answer["text"])
    assert page.text("#error h3").startswith(words)
    assert page.text("#error [data-fact=message]") == body["error"]
    assert page.text("#error [data-fact=id]") == body["request_id"] == answer["headers"]["x-amzn-requestid"]
    assert f"Status {answer['status']}, {body['code']}" in page.text("#error")
    assert page.element("#error").get_attribute("role") == "alert"
    assert page.texts(".answer") == []
    complaints = page.complaints()
    assert complaints
    assert all(f"status of {answer['status']}" in complaint for complaint in complaints)


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        (
            "notes.txt",
            base64.b64encode(b"not an image").decode(),
            "image_undecodable",
            "The server cannot read this file",
        ),
        ("huge.png", png(9000, 9000), "too_large", "The image is larger than this server accepts"),
    ],
)
def test_a_file_that_the_server_refuses(page: Page, name: str, data: str, code: str, words: str) -> None:
    page.wire("grpc")
    page.choose("model", "digits")
    page.give("drop", name, data)
    (answer,) = page.run()
    assert json.loads(answer["text"])["code"] == code
    expect(page, answer, words)
    page.sample("digit-7.png")
    assert page.run()[0]["status"] == 200, "the next request works"
    assert page.text("#error") == ""


def test_a_body_beyond_the_limit_is_not_sent(page: Page) -> None:
    page.give("drop", "endless.bmp", None, (100 << 20) + 1)
    assert page.run() == []
    words = "endless.bmp has 104,857,601 bytes, and this server accepts at most 100 MiB (LIGHTBOX_MAX_BODY_MB)"
    assert page.text("#error h3").startswith(words)


def test_a_model_that_is_gone(page: Page) -> None:
    page.wire("rest")
    page.sample("digit-7.png")
    page.choose("model", "digits")
    page.js("document.querySelector('#model option:checked').value = 'left'")
    (answer,) = page.run()
    assert json.loads(answer["text"])["code"] == "model_not_found"
    expect(page, answer, "The server does not have this model or version any more")
    page.press("#reload")
    page.wait_for("document.querySelector('#model option[value=digits]')")
    page.wait_for("document.getElementById('status').innerText === 'The list of models is up to date.'")
    assert page.text("#error") == ""
    assert page.complaints() == []


def test_the_server_is_away(page: Page) -> None:
    page.sample("digit-7.png")
    page.choose("model", "digits")
    page.online(False)
    assert page.run() == []
    assert page.text("#error h3").startswith(f"The server does not answer at {page.url}")
    page.wait_until(lambda: page.text("#health") == "Server does not answer", "the health of the server")
    page.online(True)
    assert {answer["status"] for answer in page.run()} == {200}
    page.wait_until(lambda: page.text("#health") == "Server is ready", "the health of the server")
    assert all("ERR_INTERNET_DISCONNECTED" in complaint for complaint in page.complaints())


@pytest.mark.parametrize(
    ("wires", "shown"), [(["grpc"], ["grpc", "rest", "both"]), (["inside", "grpc"], ["inside", "grpc", "rest", "both"])]
)
def test_a_wire_that_is_off_cannot_be_chosen(page: Page, page_stack: Stack, wires: list[str], shown: list[str]) -> None:
    (start,) = Path(page_stack.tmp).rglob("page.json")
    original = start.read_text()
    try:
        start.write_text(json.dumps(json.loads(original) | {"wires": wires}))
        page.open("/ui")
    finally:
        start.write_text(original)
    named = "return [...document.querySelectorAll('input[name=wire]')].filter((e) => %s).map((e) => e.value)"
    assert page.js(named % "!e.disabled") == wires
    assert page.js(named % "!e.parentElement.hidden") == shown
    assert page.text("#wire-note") == "REST is off in this start: see LIGHTBOX_TRANSPORT."
    page.wire("grpc")
    page.sample("digit-7.png")
    assert len(page.run()) == 1


def test_nothing_is_sent_before_an_image_is_chosen(page: Page) -> None:
    page.press("#run")
    assert page.text("#status") == "Choose an image first."
    assert page.recorded() == []
