"""Validates documents and bodies against OpenAPI, and runs schemathesis from a stack's document.

The validators take seconds to import, so the functions import them on use.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from support import commands
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


def problems(document: Mapping[str, Any]) -> list[str]:
    """Return the problems of an OpenAPI document."""
    from openapi_spec_validator import OpenAPIV31SpecValidator

    return [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]


def validator(schema: Mapping[str, Any], components: object) -> Any:
    """Return a validator for a schema of a document with these components."""
    from openapi_schema_validator import OAS31Validator

    return OAS31Validator({**schema, "components": components})


def drive(stack: Stack, tmp: Path, phases: str, examples: int, *options: str) -> Counter[tuple[str, int]]:
    """Return the count of each status for each operation; fail if a response differs from its declaration.

    The requests are the same each time. ``examples`` is the number of random requests for each operation.
    """
    report = tmp / "report.ndjson"
    commands.output(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{stack.url}/openapi.json"),
            *("--checks", ",".join(CHECKS), "--phases", phases, "--max-examples", str(examples)),
            *("--seed", "2", "--generation-deterministic", "--no-shrink", "--suppress-health-check", "all"),
            *("--continue-on-failure", "--warnings", "off", "--no-color", "--request-timeout", str(PATIENCE)),
            *("--report", "ndjson", "--report-ndjson-path", str(report)),
            *options,
        ],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("tests", "container", "scripts")),
            "SCHEMATHESIS_HOOKS": "support.openapi_hooks",
        },
        cwd=tmp,
    )
    return Counter(_answers(report))


def _answers(report: Path) -> Iterator[tuple[str, int]]:
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for key, interaction in recorder.get("interactions", {}).items():
            case = recorder["cases"][key]["value"]
            yield f"{case['method']} {case['path']}", interaction["response"]["status_code"]


def never_answered(statuses: Counter[tuple[str, int]]) -> set[str]:
    """Return the operations that refused every request, without undeclared methods of a path."""
    asked = {operation for operation, status in statuses if status != 405}
    return asked - {operation for operation, status in statuses if status == 200}
