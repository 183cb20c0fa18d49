"""The benchmark's rows for the engines, and the targets that read them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmark import models, targets
from benchmark.declarations import Scale
from benchmark.scenarios import engine_stacks, load
from lightbox.settings_loading import load_settings
from support.stack import REPOSITORY, clean_environ


@pytest.fixture(autouse=True)
def no_exports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "MODELS", tmp_path)

    def made(folder: Path) -> None:
        (folder / "1").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(models, "zoo_model", lambda folder, name, form: made(folder))
    monkeypatch.setattr(models, "_keras_model", lambda name, form, folder: made(folder))
    monkeypatch.setattr(models, "_quantize", lambda model, images: (model / "1" / "assets.extra").mkdir())


def test_each_engine_has_a_stack_with_mobilenet_v2_alone() -> None:
    rows = engine_stacks.variants()
    settings = [dict(row.server.settings) for row in rows]  # type: ignore[attr-defined]
    assert [each["LIGHTBOX_ENGINE"] for each in settings] == ["tensorflow", "auto", "openvino", "openvino", "openvino"]
    assert {each["SAGEMAKER_GUNICORN_WORKERS"] for each in settings} == {"2"}
    folder = rows[0].server.models  # type: ignore[attr-defined]
    assert [path.name for path in folder.iterdir()] == ["mobilenet_v2"]
    assert len({row.name for row in rows}) == len({row.server for row in rows}) == len(rows)


def test_an_int8_row_serves_a_copy_that_was_quantized() -> None:
    rows = {row.name: row.server.models for row in engine_stacks.variants("resnet50")}  # type: ignore[attr-defined]
    quantized = rows.pop(engine_stacks.INT8)
    assert (quantized / "resnet50" / "1" / "assets.extra").is_dir()
    for folder in rows.values():
        assert list((folder / "resnet50" / "1").iterdir()) == []
    assert len(list((models.MODELS / "crops").glob("*.jpg"))) == models.CALIBRATED


def test_without_what_quantizes_it_says_what_makes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(models, "QUANTIZE_VENV", tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="missing is missing, in which models are quantized: `make bench`"):
        models._quantize(tmp_path, tmp_path)


@pytest.mark.parametrize("model", engine_stacks.MODELS)
def test_each_model_is_measured_with_each_engine(model: str) -> None:
    (found,) = [each for each in engine_stacks.experiments(Scale("full")) if each.key == f"engines_{model}"]
    names = [variant.name for variant in found.variants]
    assert set(engine_stacks.EQUAL_ANSWERS) <= set(names)
    assert (engine_stacks.INT8 in names) == (model != "efficientdet_d1")
    assert len({variant.server for variant in found.variants}) == len(names)
    assert engine_stacks.experiments(Scale("quick")) == ()


def test_rows_with_other_answers_say_so() -> None:
    assert all("other answers" in name for name in engine_stacks.OTHER_ANSWERS)
    assert not any("other answers" in name for name in engine_stacks.EQUAL_ANSWERS)


def test_the_target_compares_processor_time_with_the_better_litserve() -> None:
    def row(name: str, cpu: float) -> dict[str, Any]:
        return {"name": name, "answers": 9, "cpu_ms": {"model server": cpu / 2, "gunicorn": cpu / 2}}

    rows = [row("Lightbox, engine auto", 15.0), row("Lightbox, engine openvino", 14.0)]
    rows += [row("Lightbox, engine tensorflow", 5.0), row(load.LITSERVE.name, 25.0), row(load.LITSERVE_ONE.name, 20.0)]
    rows += [row(name, 1.0) for name in engine_stacks.OTHER_ANSWERS]
    document = {"scenarios": [{"key": "load", "experiments": [{"key": "same_network_8", "variants": rows}]}]}
    target = next(each for each in targets.TARGETS if each.what.startswith("OpenVINO, CPU an image"))
    assert target.measure(document) == pytest.approx(0.7)
    assert target.measure({"scenarios": []}) is None


def test_targets_of_the_engine_read_its_own_stack() -> None:
    def row(name: str, each: float) -> dict[str, Any]:
        return {"name": name, "answers": 9, "p50": each, "throughput": 1000 / each, "ratio": each / 20}

    rows = [row(engine_stacks.AUTO, 10.0), row(load.LITSERVE.name, 16.0), row(load.LITSERVE_ONE.name, 15.0)]
    experiments = [{"key": f"same_network_{clients}", "variants": rows} for clients in (1, 8)]
    auto = {"name": engine_stacks.AUTO, "pss": {"gunicorn": 2e8, "nginx": 1e7}, "started": {"ready": 1.5}}
    found = {"key": "load", "experiments": experiments, "servers": [{"name": "Lightbox", "pss": {"nginx": 9e9}}, auto]}
    document = {"scale": "full", "scenarios": [found]}
    measured = {each.what: each.measure(document) for each in targets.TARGETS if "engine auto" in each.what}
    assert list(measured.values()) == pytest.approx([0.5, 210.0, 1.5])
    faster = next(each for each in targets.TARGETS if each.what.startswith("OpenVINO, images/s"))
    assert faster.measure(document) == pytest.approx(1.5)
    assert faster.measure({"scenarios": []}) is None


@pytest.mark.parametrize("settings", [*engine_stacks.EQUAL_ANSWERS.values(), *engine_stacks.OTHER_ANSWERS.values()])
def test_bytes_are_counted_where_the_binary_would_be(
    settings: dict[str, str],
) -> None:
    counting = engine_stacks.stack("any", settings).counting()
    environ = dict(counting.settings) | {"LIGHTBOX_MODEL_SERVER": "tensorflow_model_server"}
    assert counting.counted
    load_settings(environ)  # raises for an engine beside the binary


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [("--full", "docs/benchmarks"), ("--full load", "docs/benchmarks"), ("--quick", "build/benchmarks")],
)
def test_only_full_runs_write_the_published_figures(arguments: str, folder: str) -> None:
    command = ["make", "--dry-run", "bench", f"BENCH={arguments}"]
    shown = subprocess.run(command, cwd=REPOSITORY, env=clean_environ(), capture_output=True, text=True, check=True)
    assert f"--out {folder} " in shown.stdout
    assert ("production_page.py" in shown.stdout) == ("--full" in arguments)
