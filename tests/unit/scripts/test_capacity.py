"""scripts/capacity.py: its arithmetic, and the page that shows its table."""

from __future__ import annotations

import re
import shlex

import pytest

import capacity
from support.stack import REPOSITORY

UNIT = capacity.Unit(cpu_ms=20, image_kb=200, latency_ms=30, cores=4, utilisation=0.5)


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
