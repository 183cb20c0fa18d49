"""Latencies to figures, figures to verdicts and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmark import figures, machine, pages, results, targets
from benchmark.__main__ import SCENARIO_NAMES, parse
from benchmark.clients.base import Sample
from benchmark.declarations import Scale, Scenario
from benchmark.pages import tables
from benchmark.scenarios import SCENARIOS, client, common, engine_stacks, load, rest_or_grpc

pytestmark = pytest.mark.extended


def sample(*milliseconds: float) -> Sample:
    latencies = [value / 1000 for value in milliseconds]
    return Sample(latencies, seconds=sum(latencies), answers=len(latencies), bytes_sent=100 * len(latencies))


def test_p50_is_the_median_of_the_rounds_and_p99_is_of_all() -> None:
    found = figures.summarise([sample(10, 11, 12), sample(10, 12, 14), sample(100, 110, 120)])
    assert (found["p50"], found["round_p50"]) == (12, [11, 12, 110])
    assert found["p99"] == pytest.approx(119.2, abs=0.1)
    assert (found["answers"], found["errors"], found["bytes_sent"]) == (9, 0, 100)
    quantiles = found["quantiles"]
    assert isinstance(quantiles, list)
    assert (len(quantiles), quantiles[0], quantiles[100]) == (101, 10, 120)


def test_without_answers_there_are_no_figures() -> None:
    failed = Sample(seconds=1)
    failed.fail("refused")
    assert figures.summarise([failed]) == {"answers": 0, "errors": 1, "refused": 0, "first_error": "refused"}


@pytest.mark.parametrize(
    ("rate", "refused", "fine"), [(80, 3, True), (80, 2, False), (None, 3, False), (None, 0, False)]
)
def test_only_an_open_loop_may_be_refused(rate: int | None, refused: int, fine: bool) -> None:
    found = {"answers": 5, "errors": 3, "refused": refused}
    experiment = {"load": {"rate": rate}, "variants": [found]}
    assert results.all_answered({"scenarios": [{"experiments": [experiment]}]}) is fine
    found |= {"errors": 0, "refused": 0}
    assert results.all_answered({"scenarios": [{"experiments": [experiment]}]})


def test_ratios_are_taken_within_a_round() -> None:
    ours, floor = [sample(11), sample(220), sample(12)], [sample(10), sample(200), sample(10)]
    assert figures.paired_ratio(ours, floor) == 1.1
    assert figures.paired_ratio([Sample()], [sample(1)]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "\u2013"), (0, "0"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12 346")],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert tables.number(value) == text


def test_sizes_have_a_unit() -> None:
    assert [tables.size(count) for count in (12, 1234, 28_000_000)] == ["12 B", "1.23 kB", "28.0 MB"]


def variant(name: str, p50: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "cpu_ms": {}, **figures.summarise([sample(p50, p50)]), **more}


def experiment(key: str, variants: list[dict[str, Any]], x: float | None = None) -> dict[str, Any]:
    shape = {"requests": 2, "clients": 1, "rate": None, "waves": False}
    return {"key": key, "title": key, "x": x, "load": shape, "rounds": 1, "floor": None, "variants": variants}


def document() -> results.Document:
    """A run in which everything is as fast as it must be, made of round numbers."""
    stack = {
        "name": load.ONE_THREAD,
        "command": "./serve.sh serve",
        "settings": {"LIGHTBOX_TRANSPORT": "grpc", "SAGEMAKER_BIND_TO_PORT": "1"},
        "started": {"sidecar": 1.0, "ready": 3.0},
        "pss": {"gunicorn": 200_000_000},
        "rss": {"gunicorn": [30_000_000, 90_000_000]},
        "answers": 1500,
    }
    alone = stack | {"name": engine_stacks.AUTO, "started": {"ready": 1.5}}

    def wires(slowest: float) -> list[dict[str, Any]]:
        return [
            variant(rest_or_grpc.SAMPLE_REST, slowest),
            variant(rest_or_grpc.SAMPLE_GRPC, slowest / 5),
            variant(rest_or_grpc.LIGHTBOX_REST, slowest / 10),
            variant(rest_or_grpc.LIGHTBOX_GRPC, slowest / 25),
            variant(rest_or_grpc.WITHOUT_BOTO3, slowest / 25, ratio=1.05),
            variant(common.FLOOR, slowest / 50),
        ]

    prepared = variant(load.DIRECT, 5) | {"cpu_ms": {"model server": 10.0}}
    one = [variant(load.LIGHTBOX, 10), variant(load.LITSERVE.name, 12), variant("floor", 9), prepared]
    one[2]["stages"] = {"decode_cpu": 10.0}
    eight = [variant(load.LIGHTBOX, 10, throughput=95.0), variant(load.LITSERVE.name, 12, throughput=90.0)]
    engine = "Lightbox, engine openvino"
    one += [variant(engine, 9), variant(engine_stacks.AUTO, 9, ratio=0.55)]
    eight[1]["cpu_ms"] = {"server": 20.0}
    eight.append(variant(engine, 9, throughput=130.0) | {"cpu_ms": {"gunicorn": 5.0, "model server": 8.0}})
    cost = {"bytes_received": 2000.0, "hops": {"nginx-sidecar": [9, 9], "sidecar-model server gRPC": [602_000, 4000]}}
    point = variant(load.LIGHTBOX, 10, p99=15.0, **cost) | {"cpu_ms": {"gunicorn": 8.5, "model server": 12.0}}
    open_loop = [experiment("open", [point], x) for x in (20, 40, 80)]
    scenarios = {
        "client": [experiment(client.FORMS, [variant(client.JPEG_GRPC, 10, ratio=1.05), variant("floor", 9.5)])],
        "rest_or_grpc": [experiment("classification", wires(250)), experiment("detection", wires(2500))],
        "load": [
            experiment("same_network_1", one),
            experiment("same_network_8", eight),
            experiment(engine_stacks.PREPARED, [variant("resnet50, INT8", 9) | {"cpu_ms": {"model server": 25.0}}]),
            *open_loop,
        ],
    }
    described = {
        "measured": "2026-01-01T00:00:00+00:00",
        "scale": "full",
        "command": "python -m benchmark --full",
        "machine": {"processor": "a processor", "cores": 2, "memory_gb": 8, "kernel": "6", "load_before": [0.1, 0, 0]},
        "versions": {"python": "3.11", "model server": "embedded"},
        "rival_versions": {},
    }
    listed = [
        {"key": key, "title": key, "question": "?", "notes": [], "servers": [stack, alone], "experiments": found}
        | {"stolen": 0.25 if key == "client" else 0.004}
        | {"axes": {"open": "requests started each second"} if key == "load" else {}}
        for key, found in scenarios.items()
    ]
    return {**described, "scenarios": listed}


def test_a_start_among_others_is_no_figure() -> None:
    start = next(target for target in targets.TARGETS if target.what.startswith("sidecar start"))
    assert (start.measure(document()), start.measure(document() | {"scale": "quick"})) == (1.0, None)


def test_targets_are_measured_and_judged() -> None:
    measured = {target.what: (target, target.measure(document())) for target in targets.TARGETS}
    assert all(value is not None for _, value in measured.values())
    missed = [what for what, (target, value) in measured.items() if value is None or not target.met(value)]
    assert missed == []
    assert targets.bound_per_second(document()) == 100


def test_stolen_time_is_a_share_of_what_was_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = psutil.cpu_times()
    later = {"user": 5, "system": 1, "idle": 30, "iowait": 4, "steal": 2}
    times = iter((now, now._replace(**{name: getattr(now, name) + seconds for name, seconds in later.items()})))
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    assert machine.StolenTime().share() == pytest.approx(0.25)


def test_a_target_without_figures_is_not_judged() -> None:
    assert {target.measure(document() | {"scenarios": []}) for target in targets.TARGETS} == {None}


def write_pages(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model_server.md").write_text("# Another page\n")
    results.write(document(), folder / "results.json")
    pages.write(results.read(folder / "results.json"), folder)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages and plots; they take seconds to draw."""
    return write_pages(tmp_path_factory.mktemp("written") / "first")


def test_pages_say_what_was_measured(written: Path) -> None:
    index = (written / "README.md").read_text()
    assert "embedded model server, not TensorFlow Serving" in index
    assert "[model server](model_server.md)" in index
    assert index.count("| met |") == len(targets.TARGETS)
    assert "p50 of ModelInfer with one JPEG ÷ floor: 1.05." in (written / "client.md").read_text()
    assert "A hypervisor gave 25% of the processor time" in (written / "client.md").read_text()
    assert "| 20.5 | 100 B / 2.00 kB | 602 kB / 4.00 kB |" in (written / "load.md").read_text()
    page = (written / "rest_or_grpc.md").read_text()
    assert "classification: the floor alone takes 0.02 of the sample's REST handler's time (p50)." in page
    assert "hypervisor" not in page
    assert page.count("embedded model server, not TensorFlow Serving") == 2
    assert "LIGHTBOX_TRANSPORT=grpc ./serve.sh serve" in page
    assert "BIND_TO_PORT" not in page
    page = (written / "load.md").read_text()
    assert "mobilenet_v2, images a second for a core, with decoding of the 1024x768 JPEG: engine openvino 76.9" in page
    assert "LitServe + ONNX Runtime 50.0." in page
    assert "in brackets (<https://docs.openvino.ai/" in page
    assert "resnet50 INT8 40.0 (OpenVINO 52.0)." in page
    for name in ("rest_or_grpc_detection_latency", "load_open"):
        assert (written / "plots" / f"{name}.svg").is_file()
        assert (written / "plots" / f"{name}.png").is_file()


def test_pages_written_again_are_the_same(written: Path, tmp_path: Path) -> None:
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (written, write_pages(tmp_path / "second"))
    )
    assert first == second


def test_a_run_of_one_scenario_leaves_the_others_with_their_own_run(tmp_path: Path) -> None:
    earlier = document()
    (measured_again,) = [each for each in document()["scenarios"] if each["key"] == "load"]
    newer = {"measured": "2026-02-02T00:00:00+00:00", "scenarios": [measured_again | {"stolen": 0.5}]}
    merged = results.merge(document() | newer, earlier)
    assert [each["key"] for each in merged["scenarios"]] == [each["key"] for each in earlier["scenarios"]]
    assert [each.get("stolen") for each in merged["scenarios"] if each["key"] == "load"] == [0.5]
    third = results.merge(document() | {"measured": "2026-03-03", "scenarios": [measured_again]}, merged)
    pages.write(third, tmp_path)
    assert "Measured 2026-01-01" in (tmp_path / "client.md").read_text()
    assert "Measured 2026-03-03" in (tmp_path / "load.md").read_text()
    assert "client, rest_or_grpc: measured in other runs" in (tmp_path / "README.md").read_text()
    with pytest.raises(ValueError, match="the results that are there are of a full run, these of a quick one"):
        results.merge(document() | {"scale": "quick"}, earlier)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Scenario]:
    """Every scenario in both scales, declared without making models."""
    for maker in ("classifiers_and_detector", "classifiers", "small_classifier", "answers_of_sizes"):
        monkeypatch.setattr(f"benchmark.models.{maker}", lambda maker=maker: tmp_path / maker)
    monkeypatch.setattr("benchmark.models.with_handler", lambda handler, names: tmp_path / "_".join(names))
    for maker in ("alone", "quantized"):
        monkeypatch.setattr(f"benchmark.models.{maker}", lambda name, maker=maker: tmp_path / f"{name}_{maker}")
    monkeypatch.setattr("benchmark.models.many_models", lambda count: tmp_path / f"many_{count}")
    return [declare(Scale(scale)) for declare in SCENARIOS.values() for scale in ("quick", "full")]


def test_scenarios_are_declared_soundly(declared: list[Scenario]) -> None:
    assert set(SCENARIOS) == set(SCENARIO_NAMES)
    for scenario in declared:
        for found in scenario.experiments:
            names = [variant.name for variant in found.variants]
            assert len(names) == len(set(names))
            assert found.floor is None or found.floor in names
            assert (found.x is not None) == (found.key in scenario.axes)
        places = [(found.key, found.x) for found in scenario.experiments]
        assert len(places) == len(set(places))


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["nothing"])
    assert "there is no scenario 'nothing'; choose from rest_or_grpc, wire" in capsys.readouterr().err
