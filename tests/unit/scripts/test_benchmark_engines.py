"""The benchmark's rows for the engines, and the targets that read them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmark import models, targets
from benchmark.declarations import BOUND
from benchmark.scenarios import common, load
from support.isolation import clean_environ
from support.stack import REPOSITORY


@pytest.fixture(autouse=True)
def no_exports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "MODELS", tmp_path)

    def made(folder: Path) -> None:
        (folder / "1").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(models, "saved_model", lambda folder, name, form: made(folder))
    monkeypatch.setattr(models, "_quantize", lambda model, images: (model / "1" / "assets.extra").mkdir())


def test_each_engine_has_a_stack_with_mobilenet_v2_alone() -> None:
    rows = common.variants()
    settings = [dict(row.server.settings) for row in rows]  # type: ignore[attr-defined]
    assert [each["LIGHTBOX_ENGINE"] for each in settings] == ["tensorflow", "auto", "openvino", "openvino"]
    assert {each["SAGEMAKER_GUNICORN_WORKERS"] for each in settings} == {"2"}
    folder = rows[0].server.models  # type: ignore[attr-defined]
    assert [path.name for path in folder.iterdir()] == ["mobilenet_v2"]
    assert len({row.name for row in rows}) == len({row.server for row in rows}) == len(rows)


def test_an_int8_row_serves_a_copy_that_was_quantized() -> None:
    rows = {row.name: row.server.models for row in common.variants("resnet50")}  # type: ignore[attr-defined]
    quantized = rows.pop(common.INT8)
    assert (quantized / "resnet50" / "1" / "assets.extra").is_dir()
    for folder in rows.values():
        assert list((folder / "resnet50" / "1").iterdir()) == []
    assert len(list((models.MODELS / "crops").glob("*.jpg"))) == models.CALIBRATED


def test_without_what_quantizes_it_says_what_makes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(models, "QUANTIZE_VENV", tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="missing is missing, in which models are quantized: `make bench`"):
        models._quantize(tmp_path, tmp_path)


@pytest.mark.parametrize("model", load.ENGINES_OF)
def test_each_model_is_measured_with_each_engine(model: str) -> None:
    found = load._engines(model)
    names = [variant.name for variant in found.variants]
    assert set(common.EQUAL_ANSWERS) <= set(names)
    assert (common.INT8 in names) == (model != "efficientdet_d1")
    assert len({variant.server for variant in found.variants}) == len(names)


def test_rows_with_other_answers_say_so() -> None:
    assert all("other answers" in name for name in common.OTHER_ANSWERS)
    assert not any("other answers" in name for name in common.EQUAL_ANSWERS)


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
    shown = subprocess.run(command, cwd=REPOSITORY, env=clean_environ(), capture_output=True, text=True, check=True)
    assert f"--out {folder}\n" in shown.stdout
