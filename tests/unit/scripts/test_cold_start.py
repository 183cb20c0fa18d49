"""scripts/cold_start.py: the values it reads from a log, and its tables."""

from __future__ import annotations

import json

import cold_start
from support.stack import REPOSITORY

BEGAN = 1_790_000_000.0


def line(seconds: int, process: str, message: str) -> str:
    return json.dumps({"time": f"2026-09-21T14:13:{20 + seconds:02}.500+00:00", "process": process, "message": message})


def test_a_step_ends_with_the_first_of_its_lines() -> None:
    log = "\n".join(
        [
            "not JSON",
            line(1, "lightbox", "models: digits; default: digits"),
            line(2, "gunicorn", "INFO Starting gunicorn 27"),
            line(3, "lightbox", "Starting gunicorn is what another process says"),
            line(4, "model_server", "I Loading servable version {name: digits version: 1}"),
            line(5, "model_server", "I Loading servable version {name: digits version: 2}"),
        ]
    )
    assert cold_start.steps_of(log, BEGAN) == {
        "supervisor begins its children": 1.5,
        "gunicorn is imported": 2.5,
        "model server is imported": 4.5,
    }


def test_the_page_has_what_the_script_prints() -> None:
    page = (REPOSITORY / "docs" / "cold-start.md").read_text()
    for step in (*cold_start.STEPS, cold_start.PING):
        assert f"| {step} |" in page
