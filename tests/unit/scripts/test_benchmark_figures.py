"""Figures from latencies, and verdicts and pages from figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmark import figures, pages, results, targets
from benchmark.clients import Sample
from benchmark.declarations import BOUND, Scale, Scenario
from benchmark.scenarios import SCENARIOS, common
from support import commands
from support.isolation import clean_environ
from support.stack import REPOSITORY

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


def document() -> results.Document:
    """A run with round numbers: Lightbox loses to FastAPI in throughput and wins otherwise."""
    servers = [{"name": name, "pss": {"server": 2 * size}} for name, size in SIZES.items()]
    same = [
        variant(common.AUTO, 10, cpu=11, throughput=90),
        variant(BOUND, 8, cpu=10),
        variant(common.FASTAPI, 20, cpu=22, throughput=100),
        variant(common.BENTOML, 40, cpu=44, throughput=50),
        variant(common.LITSERVE, 20, cpu=22, throughput=60, first_error="HTTP 500"),
    ]
    load = [
        experiment("same_network_8", same),
        *(experiment("open", [variant(common.AUTO, 10)], x, rate=x) for x in (20, 40)),
    ]
    described = {
        "measured": "2026-01-01T00:00:00+00:00",
        "scale": "full",
        "command": "python -m benchmark --full",
        "machine": {"processor": "a processor", "instructions": "AVX2", "cores": 2, "memory_gb": 8, "kernel": "6"}
        | {"load_before": [0.1, 0, 0]},
        "versions": {"python": "3.11", "lightbox": "abc123", "model server": "embedded"},
    }
    axes = {"open": "requests started each second"}
    scenario = {"key": "load", "servers": servers, "experiments": load, "axes": axes}
    return {**described, "scenarios": [scenario]}


def test_pages_say_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "model_server.md").write_text("# Another page\n")
    results.write(document(), tmp_path / "results.json")
    pages.write(results.read(tmp_path / "results.json"), tmp_path)
    index = (tmp_path / "README.md").read_text()
    assert "a processor (AVX2), 2 cores, embedded model server" in index
    assert "commit abc123" in index
    assert "[model server](model_server.md)" in index
    assert f"8 clients, ms of CPU: {common.AUTO} ÷ {BOUND} | ≤ 1.10 | 1.10 | met |" in index
    both = f"{common.FASTAPI} or {common.BENTOML}"
    assert f"8 clients, requests/s: {common.AUTO} ÷ {both} | ≥ 1.10 | 0.90 | **missed** |" in index
    assert f"8 clients, requests/s: {common.AUTO} ÷ {common.LITSERVE} | ≥ 1.35 | 1.50 | met |" in index
    page = (tmp_path / "load.md").read_text()
    assert f"| {common.AUTO} | 10.0 | 10.0 | 1.10 | 11.0 | 5.50 | 5.50 | 200 MB |" in page
    assert f"| 40 | {common.AUTO} | 10.0 | 10.0 | 100 |" in page
    assert f"- {common.LITSERVE}: 0 failed, the first with `HTTP 500`" in page


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Scenario]:
    """Every scenario at both scales, declared without making models."""
    monkeypatch.setattr("benchmark.models.classifiers", lambda: tmp_path / "classifiers")
    for maker in ("alone", "quantized"):
        monkeypatch.setattr(f"benchmark.models.{maker}", lambda name, maker=maker: tmp_path / f"{name}_{maker}")
    monkeypatch.setattr("benchmark.models.many_models", lambda count: tmp_path / f"many_{count}")
    return [declare(Scale(scale)) for declare in SCENARIOS.values() for scale in ("quick", "full")]


def test_every_ratio_reads_rows_that_a_full_run_has(declared: list[Scenario]) -> None:
    rows = {
        (scenario.key, experiment.key, row)
        for scenario in declared
        for experiment in scenario.experiments
        for row in [*(variant.name for variant in experiment.variants), *([BOUND] if experiment.bound else [])]
    }
    for ratio in targets.RATIOS:
        assert {(ratio.scenario, ratio.key, name) for name in (ratio.ours, *ratio.theirs)} <= rows


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [("--full", "docs/benchmarks"), ("--full load", "build/benchmarks"), ("--quick", "build/benchmarks")],
)
def test_only_whole_runs_write_the_published_figures(arguments: str, folder: str) -> None:
    command = ["make", "--dry-run", "bench", f"BENCH={arguments}"]
    printed = commands.output(command, env=clean_environ(), cwd=REPOSITORY)
    assert f"--out {folder}\n" in printed
