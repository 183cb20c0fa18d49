"""scripts/capacity.py: its arithmetic, its reading of results, and the page that shows its table."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

import capacity
from benchmark.scenarios.load import LIGHTBOX, ONE_THREAD
from support.stack import REPOSITORY

UNIT = capacity.Unit(cpu_ms=20, image_kb=200, latency_ms=30, cores=4, utilisation=0.5)


def results(*names: str, **changes: Any) -> dict[str, Any]:
    variants = [
        {"name": name, "cpu_ms": {"gunicorn": 8.0, "model server": 12.0}, "bytes_sent": 200_000, "p50": 30.0, **changes}
        for name in names
    ]
    experiments = [{"key": f"same_network_{clients}", "variants": variants} for clients in (1, 8)]
    return {"scenarios": [{"key": "load", "experiments": experiments}]}


def test_the_arithmetic() -> None:
    assert UNIT.images_a_second == 100
    assert UNIT.fleet(600_000) == {
        "images per minute": "600,000",
        "per second": "10,000",
        "cores": "400.0",
        "instances": "100",
        "with a zone to spare": "150",
        "in": "2,000 MB/s",
        "in progress, of at most": f"300, {100 * 4 * 8:,}",
    }


def test_there_are_two_instances_however_few_images() -> None:
    assert UNIT.fleet(1)["instances"] == "2"


def test_the_better_lightbox_of_a_run_counts() -> None:
    name, unit = capacity.measured(results(LIGHTBOX, ONE_THREAD))
    assert (name, unit.cpu_ms, unit.image_kb, unit.latency_ms) == (ONE_THREAD, 20, 200, 30)
    assert capacity.measured(results(LIGHTBOX))[0] == LIGHTBOX
    assert f"`{LIGHTBOX}` of [load](load.md)" in capacity.page(results(LIGHTBOX))


@pytest.mark.parametrize("document", [results(), results(LIGHTBOX, cpu_ms={}), {"scenarios": []}])
def test_results_without_the_figures_are_named(document: dict[str, Any]) -> None:
    with pytest.raises(capacity.NoFigures, match="run that one"):
        capacity.measured(document)


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "much"])
def test_a_wrong_number_is_named(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        capacity.main(["--cpu-ms", wrong])
    assert "above 0" in capsys.readouterr().err


def test_the_page_shows_what_its_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "production.md").read_text()
    (command,) = re.findall(r"python scripts/capacity\.py (.*)", page)
    assert capacity.main(shlex.split(command)) == 0
    assert capsys.readouterr().out.strip() in page
