"""/openapi.json of a running endpoint, and a schemathesis run against the endpoint with that document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import requests

from support.openapi import drive, never_answered, problems, validator
from support.patience import PATIENCE
from support.stack import Stack

DRIVEN = ("half_plus_two", "image_mean", "two_in_two_out", "classify_regress")
"""Models whose own paths are driven. Of the others some fail or loop, as some of their inputs ask them to."""


@pytest.fixture(scope="module")
def document(golden_stack: Stack) -> dict[str, Any]:
    answer = requests.get(f"{golden_stack.url}/openapi.json", timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.extended
def test_it_is_openapi(document: dict[str, Any]) -> None:
    assert problems(document) == []


def test_tensorflow_servings_api_is_off_by_default(stack: Stack) -> None:
    answer = requests.get(f"{stack.url}/v1/models/digits", timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")
    paths = requests.get(f"{stack.url}/openapi.json", timeout=PATIENCE).json()["paths"]
    assert len(paths) > 10
    assert not any(path.startswith("/v1") for path in paths)


def test_it_names_every_model_with_its_signatures(golden_stack: Stack, document: dict[str, Any]) -> None:
    index = requests.post(f"{golden_stack.url}/v2/repository/index", timeout=PATIENCE).json()
    assert len(index) > 10
    for model in index:
        assert f"/v2/models/{model['name']}/infer" in document["paths"]
    forms = document["components"]["schemas"]["multi_signature.request"]["anyOf"]
    signatures = {form["properties"]["signature_name"]["const"] for form in forms if "properties" in form}
    assert len(signatures) > 1


def test_every_example_is_answered_as_declared(golden_stack: Stack, document: dict[str, Any]) -> None:
    shown = 0
    for path, item in document["paths"].items():
        content = item.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        if "example" not in content:
            continue
        url = golden_stack.url + path.replace("{name}", "any").replace("/versions/{version}", "")
        answer = requests.post(url, json=content["example"], timeout=PATIENCE)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        check(document, content["schema"], content["example"])
        declared = item["post"]["responses"]["200"]["content"].get(answer.headers["Content-Type"])
        assert declared is not None, path
        if answer.headers["Content-Type"] == "application/json":
            check(document, declared["schema"], answer.json())
        shown += 1
    assert shown > 10


def check(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    validator(schema, document["components"]).validate(value)


def test_it_is_no_request_of_the_metrics(golden_stack: Stack) -> None:
    before = requests_counted(golden_stack)
    assert requests.get(f"{golden_stack.url}/openapi.json", timeout=PATIENCE).status_code == 200
    assert requests.get(f"{golden_stack.url}/v2", timeout=PATIENCE).status_code == 200  # counted after the first
    assert requests_counted(golden_stack) == before + 1
    assert "openapi" not in requests.get(f"{golden_stack.url}/metrics", timeout=PATIENCE).text


def requests_counted(stack: Stack) -> float:
    page = requests.get(f"{stack.url}/metrics", timeout=PATIENCE).text
    return sum(map(float, re.findall(r"^lightbox_requests_total\{.*\} (\S+)$", page, re.MULTILINE)))


@pytest.mark.extended
def test_schemathesis_finds_what_is_declared(golden_stack: Stack, tmp_path: Path) -> None:
    others = f"^/v1/|^/v2/models/(?!({'|'.join(DRIVEN)})(/|$))|^/models/(?!{DRIVEN[0]}/)"
    statuses = drive(golden_stack, tmp_path, "examples,fuzzing", 5, "--exclude-path-regex", others)
    assert len({operation for operation, _ in statuses}) > 30
    # Valid requests are answered. Declared refusals alone are not enough.
    assert never_answered(statuses) == set()
    assert sum(count for (_, status), count in statuses.items() if status >= 400) > 20
