"""The benchmark's rows for the engines, and the targets that read them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmark import targets
from benchmark.declarations import BOUND
from benchmark.scenarios import common, load
from support import commands
from support.isolation import clean_environ
from support.stack import REPOSITORY


def test_targets_compare_the_best_of_both_sides() -> None:
    def row(name: str, cpu: float) -> dict[str, Any]:
        each = {"cpu_ms": {"model server": cpu / 2, "gunicorn": cpu / 2}}
        return each | {"name": name, "answers": 9, "p50": cpu, "throughput": 1000 / cpu}

    rows = [row(common.AUTO, 15.0), row("Lightbox, engine openvino", 14.0), row(BOUND, 10.0)]
    rows += [row("Lightbox, engine tensorflow", 5.0), row(common.LITSERVE, 25.0), row(load.LITSERVE_ONE, 20.0)]
    rows += [row(name, 1.0) for name in common.OTHER_ANSWERS]
    experiments = [{"key": f"same_network_{clients}", "x": None, "variants": rows} for clients in (1, 8)]
    document = {"scale": "full", "scenarios": [{"key": "load", "experiments": experiments}]}
    measured = {each.what: each.ratio.value(document) for each in targets.TARGETS}
    assert {what: value for what, value in measured.items() if value is not None} == {
        "CPU of an image ÷ the bound, mobilenet_v2, engine auto, 1 client": pytest.approx(1.5),
        "the same, 8 clients": pytest.approx(1.5),
        "CPU of an image ÷ LitServe's best, mobilenet_v2, 8 clients": pytest.approx(0.7),
        "p50 ÷ LitServe's best, mobilenet_v2, 1 client": pytest.approx(0.7),
        "requests/s ÷ LitServe's best, mobilenet_v2, 8 clients": pytest.approx(10 / 7),
    }


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [("--full", "docs/benchmarks"), ("--full load", "docs/benchmarks"), ("--quick", "build/benchmarks")],
)
def test_only_full_runs_write_the_published_figures(arguments: str, folder: str) -> None:
    command = ["make", "--dry-run", "bench", f"BENCH={arguments}"]
    printed = commands.output(command, env=clean_environ(), cwd=REPOSITORY)
    assert f"--out {folder}\n" in printed
