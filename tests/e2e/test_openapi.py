"""/openapi.json of a running endpoint, and the endpoint as schemathesis finds it by that document."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from support.stack import REPOSITORY, Stack

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
DRIVEN = ("half_plus_two", "image_mean", "two_in_two_out", "classify_regress")
"""Models whose own paths are driven. Of the others some fail or loop, as some of their inputs ask them to."""


@pytest.fixture(scope="module")
def document(golden_stack: Stack) -> dict[str, Any]:
    answer = requests.get(f"{golden_stack.url}/openapi.json", timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_it_is_openapi(document: dict[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_it_names_every_model_with_its_signatures(golden_stack: Stack, document: dict[str, Any]) -> None:
    index = requests.post(f"{golden_stack.url}/v2/repository/index", timeout=30).json()
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
        answer = requests.post(url, json=content["example"], timeout=30)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        check(document, content["schema"], content["example"])
        declared = item["post"]["responses"]["200"]["content"].get(answer.headers["Content-Type"])
        assert declared is not None, path
        if answer.headers["Content-Type"] == "application/json":
            check(document, declared["schema"], answer.json())
        shown += 1
    assert shown > 10


def check(document: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    OAS31Validator({**schema, "components": document["components"]}).validate(value)


def test_it_is_no_request_of_the_metrics(golden_stack: Stack) -> None:
    before = requests_counted(golden_stack)
    assert requests.get(f"{golden_stack.url}/openapi.json", timeout=30).status_code == 200
    assert requests.get(f"{golden_stack.url}/v2", timeout=30).status_code == 200  # it is counted after the other
    assert requests_counted(golden_stack) == before + 1
    assert "openapi" not in requests.get(f"{golden_stack.url}/metrics", timeout=30).text


def requests_counted(stack: Stack) -> float:
    page = requests.get(f"{stack.url}/metrics", timeout=30).text
    return sum(map(float, re.findall(r"^lightbox_requests_total\{.*\} (\S+)$", page, re.MULTILINE)))


def test_schemathesis_finds_what_is_declared(golden_stack: Stack, tmp_path: Path) -> None:
    report = tmp_path / "report.ndjson"
    others = f"^/v2/models/(?!({'|'.join(DRIVEN)})(/|$))"
    found = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{golden_stack.url}/openapi.json"),
            *("--checks", ",".join(CHECKS), "--phases", "examples,fuzzing", "--max-examples", "5"),
            *("--seed", "1", "--generation-deterministic", "--no-shrink"),
            *("--suppress-health-check", "all", "--continue-on-failure", "--warnings", "off", "--no-color"),
            *("--exclude-path-regex", others, "--request-timeout", "60"),
            *("--report", "ndjson", "--report-ndjson-path", str(report)),
        ],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("tests", "container", "scripts")),
            "SCHEMATHESIS_HOOKS": "support.openapi_hooks",
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    statuses = Counter(answers(report))
    assert len({operation for operation, _ in statuses}) > 30
    # What is valid by the document is answered, not only refused as declared.
    without = {operation for operation, _ in statuses} - {operation for operation, status in statuses if status == 200}
    assert without == set()
    assert sum(count for (_, status), count in statuses.items() if status >= 400) > 20


def answers(report: Path) -> Iterator[tuple[str, int]]:
    """Yield operation and status of each response in a report of schemathesis."""
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for key, interaction in recorder.get("interactions", {}).items():
            case = recorder["cases"][key]["value"]
            yield f"{case['method']} {case['path']}", interaction["response"]["status_code"]
