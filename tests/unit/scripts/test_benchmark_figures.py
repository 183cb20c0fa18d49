"""Figures from latencies, and verdicts and pages from figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmark import figures, pages, results, targets
from benchmark.clients import Sample
from benchmark.declarations import BOUND, Scale, Scenario
from benchmark.scenarios import SCENARIOS, common, rest_or_grpc

pytestmark = pytest.mark.extended


def sample(*milliseconds: float) -> Sample:
    latencies = [value / 1000 for value in milliseconds]
    return Sample(latencies, seconds=sum(latencies), answers=len(latencies), bytes_sent=100 * len(latencies))


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
    shape = {"requests": 2, "clients": 1, "rate": rate, "waves": False}
    return {"key": key, "title": key, "x": x, "load": shape, "rounds": 1, "variants": variants}


def document() -> results.Document:
    """A run with round numbers: Lightbox loses the study's base64 test and wins the others."""
    auto = {"name": common.AUTO, "pss": {"gunicorn": 200_000_000}}
    fastapi = {"name": common.FASTAPI, "pss": {"server": 100_000_000}}
    failed = {"name": common.LITSERVE, "failed": "no such file"}

    def wires(slowest: float) -> list[dict[str, Any]]:
        names = (rest_or_grpc.SAMPLE_REST, rest_or_grpc.LIGHTBOX_REST, rest_or_grpc.LIGHTBOX_GRPC)
        return [variant(name, slowest / by) for name, by in zip(names, (1, 10, 25), strict=True)]

    def beside(key: str, ours: float, theirs: float) -> dict[str, Any]:
        rows = [variant(common.AUTO, 10, throughput=ours), variant(common.FASTAPI, 12, throughput=theirs)]
        return experiment(key, rows)

    same = [
        variant(common.AUTO, 10, cpu=11),
        variant(BOUND, 8, cpu=10),
        variant(common.FASTAPI, 20, cpu=22),
        variant(common.LITSERVE, 20, cpu=22, first_error="the server did not start: no such file"),
    ]
    scenarios = {
        "rest_or_grpc": [experiment("classification", wires(250)), experiment("detection", wires(2500))],
        "load": [
            beside("study_base64", 90, 100),
            beside("study_binary", 120, 100),
            experiment("same_network_8", same),
            *(experiment("open", [variant(common.AUTO, 10)], x, rate=x) for x in (20, 40)),
        ],
    }
    described = {
        "measured": "2026-01-01T00:00:00+00:00",
        "scale": "full",
        "command": "python -m benchmark --full",
        "machine": {"processor": "a processor", "instructions": "AVX2", "cores": 2, "memory_gb": 8, "kernel": "6"}
        | {"load_before": [0.1, 0, 0]},
        "versions": {"python": "3.11", "lightbox": "abc123", "model server": "embedded"},
    }
    listed = [
        {"key": key, "servers": [auto, fastapi, failed], "experiments": found}
        | {"stolen": 0.25 if key == "load" else 0.004}
        | {"axes": {"open": "requests started each second"} if key == "load" else {}}
        for key, found in scenarios.items()
    ]
    return {**described, "scenarios": listed}


def write_pages(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model_server.md").write_text("# Another page\n")
    results.write(document(), folder / "results.json")
    pages.write(results.read(folder / "results.json"), folder)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages and pictures."""
    return write_pages(tmp_path_factory.mktemp("written") / "first")


def test_pages_say_what_was_measured(written: Path) -> None:
    index = (written / "README.md").read_text()
    assert "a processor (AVX2), 2 cores, embedded model server" in index
    assert "commit abc123" in index
    assert "[model server](model_server.md)" in index
    assert "| the same, 8 clients | ≤ 1.10 | 1.10 | met |" in index
    assert "50 clients, base64, with the better resize | ≥ 1.10 | 0.90 | **missed** |" in index
    page = (written / "load.md").read_text()
    assert "A hypervisor gave 25% of the processor time" in page
    assert f"| {common.AUTO} | 10.0 | 10.0 | 1.10 | 11.0 | 5.50 | 5.50 | 200 MB |" in page
    assert f"| 40 | {common.AUTO} | 10.0 | 10.0 | 100 |" in page
    assert f"- {common.LITSERVE}: 0 failed, the first with `the server did not start: no such file`" in page
    assert "hypervisor" not in (written / "rest_or_grpc.md").read_text()
    assert {path.name for path in (written / "plots").iterdir()} == {"load.svg", "rest_or_grpc.svg"}


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Scenario]:
    """Every scenario at both scales, declared without making models."""
    for maker in ("classifiers_and_detector", "classifiers"):
        monkeypatch.setattr(f"benchmark.models.{maker}", lambda maker=maker: tmp_path / maker)
    monkeypatch.setattr("benchmark.models.with_handler", lambda handler, names: tmp_path / "_".join(names))
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
    for ratio in (ratio for page in targets.SENTENCES.values() for ratio in page):
        assert {(ratio.scenario, ratio.key, name) for name in (*ratio.ours, *ratio.theirs)} <= rows
