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


def test_the_report_has_medians_and_the_fastest_start() -> None:
    starts = [
        (
            {"gunicorn is imported": ready / 2, cold_start.PING: ready},
            {"gunicorn": ready / 10, cold_start.TOGETHER: ready / 5},
        )
        for ready in (3.0, 1.0, 2.0)
    ]
    rows = cold_start.report([cold_start.Case("auto, first start", starts)]).splitlines()
    assert "| seconds until | auto, first start |" in rows
    assert "| gunicorn is imported | 1.00 |" in rows
    assert "| /ping is 200 | 2.00 |" in rows
    assert "| /ping is 200, fastest of the starts | 1.00 |" in rows
    assert "| gunicorn | 0.20 |" in rows
    assert rows[-1] == "| together | 0.40 |"


def test_the_page_has_what_the_script_prints() -> None:
    page = (REPOSITORY / "docs" / "cold-start.md").read_text()
    for step in (*cold_start.STEPS, cold_start.PING):
        assert f"| {step} |" in page
