"""The page's files from nginx: types, ETag and policy. The metrics do not count them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import requests

from lightbox.features.page import FILES, POLICY
from support.patience import PATIENCE, poll
from support.stack import Stack

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".png": "image/png", ".jpg": "image/jpeg"}
SERVED = sorted(path for path in FILES.rglob("*") if path.suffix in TYPES)
MOST_BYTES = 66_000


def counted(stack: Stack) -> list[str]:
    """Return the lines of /metrics that change with requests."""
    lines = requests.get(stack.url + "/metrics", timeout=PATIENCE).text.splitlines()
    return [line for line in lines if line.startswith(("lightbox_requests_total", "lightbox_rejected_total"))]


@pytest.mark.parametrize("path", ["/", "/ui", "/ui/"])
def test_the_page_is_served_with_its_policy_and_an_etag(page_stack: Stack, path: str) -> None:
    answer = requests.get(page_stack.url + path, timeout=PATIENCE, allow_redirects=False)
    assert answer.status_code == 200
    assert answer.text == (FILES / "index.html").read_text()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["X-Amzn-RequestId"]
    again = requests.get(page_stack.url + path, headers={"If-None-Match": answer.headers["ETag"]}, timeout=PATIENCE)
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("file", SERVED, ids=lambda path: path.name)
def test_each_file_has_its_type(page_stack: Stack, file: Path) -> None:
    answer = requests.get(f"{page_stack.url}/ui/{file.relative_to(FILES)}", timeout=PATIENCE)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].split(";")[0] == TYPES[file.suffix]
    assert answer.content == file.read_bytes()
    assert answer.headers["ETag"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_last_line_of_a_start_has_the_pages_address(page_stack: Stack) -> None:
    lines = (line for _ in poll() for line in page_stack.log.splitlines() if "] ready after " in line)
    assert next(lines, "").endswith(f"; page: http://localhost:{page_stack.port}/"), "it comes after the first answer"


def test_the_page_reads_what_was_started(page_stack: Stack) -> None:
    answer = requests.get(page_stack.url + "/ui/start.json", timeout=PATIENCE)
    expected = {"default_model": "efficientnet_lite0", "wires": ["local", "grpc", "rest"], "max_body_mb": 100}
    assert answer.json() == expected | {"features": ["open_inference", "page", "openapi", "sagemaker"], "metrics": True}
    assert answer.headers["Content-Type"].startswith("application/json")


def test_other_files_and_methods_get_the_usual_errors(page_stack: Stack) -> None:
    for path in ("/ui/none.js", "/ui/samples", "/ui/samples/", "/ui/../page.json", "/ui/%2e%2e/processes/page.py"):
        answer = requests.get(page_stack.url + path, timeout=PATIENCE, allow_redirects=False)
        assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")
    answer = requests.post(page_stack.url + "/", data=b"x", timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")


def test_the_page_does_not_count_as_requests(page_stack: Stack) -> None:
    before = counted(page_stack)
    for path in ("/", "/ui", "/ui/start.json", *(f"/ui/{file.relative_to(FILES)}" for file in SERVED)):
        assert requests.get(page_stack.url + path, timeout=PATIENCE).ok
    assert counted(page_stack) == before


def test_the_page_is_small_and_loads_nothing_from_elsewhere() -> None:
    own = [file for file in SERVED if file.parent == FILES]
    assert sum(file.stat().st_size for file in own) < MOST_BYTES
    for file in own:
        text = file.read_text()
        assert not re.search(r"(?:src|url|import|fetch)\W{1,3}https?:", text), file.name
        assert not re.search(r"\sstyle=|\son\w+=", text), f"{file.name}: the policy refuses inline styles and handlers"
