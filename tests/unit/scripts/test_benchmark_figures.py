"""Figures from latencies, and tables and verdicts from figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmark import figures, highest, tables, targets
from benchmark.clients import Sample
from benchmark.declarations import BOUND, Scale, Scenario
from benchmark.scenarios import SCENARIOS, common

pytestmark = pytest.mark.extended

SIZES = {common.AUTO: 100_000_000, common.FASTAPI: 50_000_000}


def sample(*milliseconds: float) -> Sample:
    latencies = [value / 1000 for value in milliseconds]
    return Sample(latencies, seconds=sum(latencies), responses=len(latencies), bytes_sent=100 * len(latencies))


def test_p50_is_the_median_of_the_rounds_and_p99_is_of_all() -> None:
    rounds = [sample(10, 11, 12), sample(10, 12, 14), sample(100, 110, 120)]
    found = figures.summarise(rounds, {"gunicorn": 0.045})
    assert (found["p50"], found["answers"], found["errors"], found["bytes_sent"]) == (12, 9, 0, 100)
    assert found["p99"] == pytest.approx(119.2, abs=0.1)
    assert found["cpu_ms"] == {"gunicorn": 5}


def variant(name: str, p50: float, cpu: float = 0, **more: Any) -> dict[str, Any]:
    """A row whose server took ``cpu`` milliseconds of CPU per answer."""
    seconds = {"gunicorn": cpu / 1000, "model server": cpu / 1000}
    return {"name": name, "server": name, **figures.summarise([sample(p50, p50)], seconds), **more}


def experiment(
    key: str, variants: list[dict[str, Any]], x: float | None = None, rate: float | None = None
) -> dict[str, Any]:
    shape = {"requests": 2, "clients": 1, "rate": rate}
    return {"key": key, "title": key, "x": x, "load": shape, "rounds": 1, "variants": variants}


def load() -> dict[str, Any]:
    """The scenario with round numbers: Lightbox loses to FastAPI in throughput and wins otherwise."""
    servers = [{"name": name, "pss": {"server": 2 * size}} for name, size in SIZES.items()]
    same = [
        variant(common.AUTO, 10, cpu=11, throughput=90),
        variant(BOUND, 8, cpu=10),
        variant(common.FASTAPI, 20, cpu=22, throughput=100),
        variant(common.BENTOML, 40, cpu=44, throughput=50),
        variant(common.LITSERVE, 20, cpu=22, throughput=60, first_error="HTTP 500"),
    ]
    experiments = [
        experiment("same_network_8", same),
        *(experiment("open", [variant(common.AUTO, 10)], x, rate=x) for x in (20, 40)),
    ]
    axes = {"open": "requests started each second"}
    return {"key": "load", "servers": servers, "experiments": experiments, "axes": axes}


def test_tables_have_the_figures_of_rows_and_of_targets() -> None:
    lines = tables.scenario(load())
    assert f"| {common.AUTO} | 10.0 | 10.0 | 11.0 | 1.00 | 5.50 | 5.50 | 200 MB |" in lines
    assert f"| 40 | {common.AUTO} | 10.0 | 10.0 | 100 |" in lines
    assert f"same_network_8, {common.LITSERVE}: 0 failed: `HTTP 500`" in lines
    verdicts = "\n".join(targets.table(load()["experiments"]))
    assert f"ms of CPU: {common.AUTO} − {BOUND} | ≤ 1.00 | 1.00 | met |" in verdicts  # noqa: RUF001 - a minus sign
    both = f"{common.FASTAPI} or {common.BENTOML}"
    assert f"requests/s: {common.AUTO} ÷ {both} | ≥ 1.10 | 0.90 | **missed** |" in verdicts
    assert f"requests/s: {common.AUTO} ÷ {common.LITSERVE} | ≥ 1.35 | 1.50 | met |" in verdicts


def test_the_highest_rates_are_medians_beside_the_first_server() -> None:
    def rounds(*rates: float) -> list[dict[str, float]]:
        return [{"rate": rate, "p50": 10, "p99": 20} for rate in rates]

    lines = highest.table({"other": rounds(30, 50), "this": rounds(110, 90)})
    assert lines[2:4] == [
        "| other | 40.0 | 1.00 | 10.0 | 20.0 | 30.0 50.0 |",
        "| this | 100 | 2.50 | 10.0 | 20.0 | 110 90.0 |",
    ]


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Scenario]:
    """Every scenario at both scales, declared without making models."""
    monkeypatch.setattr("benchmark.models.classifiers", lambda: tmp_path / "classifiers")
    for maker in ("alone", "quantized"):
        monkeypatch.setattr(f"benchmark.models.{maker}", lambda name, maker=maker: tmp_path / f"{name}_{maker}")
    monkeypatch.setattr("benchmark.models.many_models", lambda count: tmp_path / f"many_{count}")
    return [declare(Scale(scale)) for declare in SCENARIOS.values() for scale in ("quick", "full")]


def test_every_target_is_of_rows_that_a_full_run_has(declared: list[Scenario]) -> None:
    rows = {
        (experiment.key, row)
        for scenario in declared
        for experiment in scenario.experiments
        for row in [*(variant.name for variant in experiment.variants), *([BOUND] if experiment.bound else [])]
    }
    for target in targets.TARGETS:
        assert {(target.key, name) for name in (target.ours, *target.theirs)} <= rows
