"""The benchmark's rows for the engines, and the targets that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmark import models, targets
from benchmark.scenarios import engine_stacks, load
from lightbox.settings_loading import load_settings


@pytest.fixture(autouse=True)
def no_exports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "MODELS", tmp_path)
    monkeypatch.setattr(
        models, "zoo_model", lambda folder, name, form: (folder / "1").mkdir(parents=True, exist_ok=True)
    )


def test_each_engine_has_a_stack_with_mobilenet_v2_alone() -> None:
    rows = engine_stacks.variants()
    settings = [dict(row.server.settings) for row in rows]  # type: ignore[attr-defined]
    assert [each["LIGHTBOX_ENGINE"] for each in settings] == ["tensorflow", "auto", "openvino", "openvino"]
    assert {each["SAGEMAKER_GUNICORN_WORKERS"] for each in settings} == {"2"}
    folder = rows[0].server.models  # type: ignore[attr-defined]
    assert [path.name for path in folder.iterdir()] == ["mobilenet_v2"]
    assert len({row.name for row in rows}) == len({row.server for row in rows}) == len(rows)


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


@pytest.mark.parametrize("settings", [*engine_stacks.EQUAL_ANSWERS.values(), *engine_stacks.OTHER_ANSWERS.values()])
def test_bytes_are_counted_where_the_binary_would_be(
    settings: dict[str, str],
) -> None:
    counting = engine_stacks.stack("any", settings).counting()
    environ = dict(counting.settings) | {"LIGHTBOX_MODEL_SERVER": "tensorflow_model_server"}
    assert counting.counted
    load_settings(environ)  # raises for an engine beside the binary
