"""scripts/production_page.py: the figures on the page are those of the benchmark's results."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

import capacity
import production_page
from support.stack import REPOSITORY

PAGE = REPOSITORY / "docs" / "production.md"
RESULTS = REPOSITORY / "docs" / "benchmarks" / "results.json"


@pytest.fixture
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def variants(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [v for scenario in document["scenarios"] for point in scenario["experiments"] for v in point["variants"]]


def test_the_page_has_the_figures_of_the_last_run(document: dict[str, Any]) -> None:
    page = PAGE.read_text()
    assert set(re.findall(r"<!-- ([a-z]+) -->", page)) == {*production_page.BLOCKS, "end"}
    assert page == production_page.rewritten(page, document), "run `make production-page`"


def test_other_figures_change_every_block_and_nothing_else(document: dict[str, Any]) -> None:
    slower = copy.deepcopy(document)
    slower["measured"] = "2031-02-03T04:05:06+00:00"
    for variant in variants(slower):
        variant["cpu_ms"] = {process: 2 * ms for process, ms in (variant["cpu_ms"] or {}).items()}
    before = PAGE.read_text()
    after = production_page.rewritten(before, slower)
    for name in production_page.BLOCKS:
        block = re.compile(rf"<!-- {name} -->.*?<!-- end -->", re.DOTALL)
        assert block.findall(before) != block.findall(after), name
    assert "3 February 2031" in after
    unit = capacity.measured(slower)[1]
    assert capacity.sheet(unit) in after
    target = int(re.findall(r"--scale-target (\d{4,})", after)[0])
    assert 0 <= unit.images_a_second * 60 - target < 100
    around = [re.sub(r"--scale-target \d+", "", production_page.BLOCK.sub("", page)) for page in (before, after)]
    assert around[0] == around[1]


@pytest.mark.parametrize("missing", ["load", "scale"])
def test_results_without_a_scenario_leave_the_page_as_it_is(
    document: dict[str, Any], missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document["scenarios"] = [scenario for scenario in document["scenarios"] if scenario["key"] != missing]
    results, page = tmp_path / "results.json", tmp_path / "production.md"
    results.write_text(json.dumps(document))
    page.write_text(PAGE.read_text())
    assert production_page.main(["--results", str(results), "--page", str(page)]) == 1
    assert "production_page.py: the results hold no" in capsys.readouterr().err
    assert page.read_text() == PAGE.read_text()
