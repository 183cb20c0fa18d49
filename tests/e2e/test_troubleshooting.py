"""docs/troubleshooting.md quotes the errors of common mistakes exactly."""

from __future__ import annotations

import pytest
import requests

from support.patience import PATIENCE
from support.stack import Stack
from support.troubleshooting import pattern, quoted

IMAGE = {"Content-Type": "application/x-image"}
JSON = {"Content-Type": "application/json"}
MISTAKES = [
    ("GET", "/nope", {}, b""),
    ("POST", "/invocations", IMAGE, b"no image"),
    ("POST", "/invocations", IMAGE, b""),
    ("POST", "/invocations", {}, b"no image"),
    ("POST", "/invocations", JSON, b"{"),
    ("POST", "/invocations", JSON, b'{"instances": [1], "inputs": [1]}'),
    ("POST", "/invocations", JSON, b'{"inputs": {"unknown": [1]}}'),
]


@pytest.mark.parametrize(("method", "path", "headers", "body"), MISTAKES)
def test_an_error_is_quoted_as_it_comes(
    stack: Stack, method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    answer = requests.request(method, f"{stack.url}{path}", headers=headers, data=body, timeout=PATIENCE)
    error = answer.json()["error"]
    assert [text for text in quoted() if pattern(text).search(error)], error
