"""Which settings are tried, and which one is taken."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lightbox.model_runtime.engines.hardware import has_bf16
from lightbox.model_runtime.engines.setting import Setting
from lightbox.tools.optimize import search as module
from lightbox.tools.optimize.pictures import Picture, Pictures
from lightbox.tools.optimize.search import Search, candidates
from lightbox.tools.optimize.trial import Subject, Trial, TrialFailed

COUNT = 100
PICTURES = Pictures([Picture(f"{number}.png", str(number)) for number in range(COUNT)], [])


def found(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, costs: dict[str, float], wrong: dict[str, int] | None = None
) -> tuple[Search, list[str]]:
    """Search with these CPU times as a share of the present one, and so many first pictures with other answers."""
    said: list[str] = []

    def measured(
        _: Subject,
        setting: Setting,
        pictures: Sequence[Picture],
        basis: str,
        least: float = 0.0,
        say: Callable[[int], None] | None = None,
    ) -> Trial:
        if str(setting) not in costs:
            raise TrialFailed("its process ended by signal 11")
        errors = (wrong or {}).get(str(setting), 0)
        times = {"cpu": [1e-3, costs[str(setting)] * 1e-3], "wall": [1e-3, 1e-3]}
        return Trial(setting, [{**times, "agreement": {"top-1": float(at >= errors)}} for at in range(len(pictures))])

    monkeypatch.setattr(module, "measured", measured)
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    search = Search(subject, PICTURES, 0.03, said.append)
    search.find()
    return search, said


def test_settings_of_a_file(subject: Subject) -> None:
    names = {str(setting) for setting in candidates(subject, decodes=False)}
    runtime = {f"onnxruntime{level} f32" for level in ("", " extended", " basic")}
    assert names == {"openvino f32", "openvino int8", *(["openvino bf16"] if has_bf16() else []), *runtime}
    assert f"{next(iter(runtime))}, fast_decode" in {str(setting) for setting in candidates(subject, decodes=True)}


def test_the_cheapest_that_agrees_is_taken(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"auto f32, fast_decode": 1.0, "openvino f32": 0.7, "onnxruntime f32": 0.6, "onnxruntime basic f32": 0.65}
    findings, _ = found(subject, monkeypatch, costs, {"onnxruntime f32": 4, "onnxruntime basic f32": 3})
    verdicts = {name: item["verdict"] for name, item in findings.tried.items()}
    assert str(findings.setting) == "onnxruntime basic f32"
    assert verdicts["onnxruntime f32"] == "refused: top-1 86.67% after 30 pictures, less than 97.00%"
    assert verdicts["onnxruntime basic f32"] == "chosen"
    assert verdicts["openvino f32"] == "not compared: it takes more CPU time than the chosen one"
    assert verdicts["onnxruntime extended f32"] == "refused: its process ended by signal 11"
    assert verdicts["openvino int8"].startswith("refused: it takes 20 more pictures to calibrate it")
    json.dumps(findings.tried)


def test_reduced_decoding_is_tried_where_it_saves_time(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"auto f32, fast_decode": 0.8, "openvino f32, fast_decode": 0.5, "openvino f32": 0.7}
    assert found(subject, monkeypatch, costs)[0].setting == Setting("openvino", fast_decode=True)
    is_set = dataclasses.replace(subject, may_decode=False)
    assert found(is_set, monkeypatch, costs)[0].setting == Setting("openvino")


def test_without_a_gain_the_present_setting_stays(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    findings, _ = found(subject, monkeypatch, {"auto f32, fast_decode": 1.0, "openvino f32": 0.98})
    assert findings.setting == Setting()
    assert findings.tried["openvino f32"]["verdict"] == "refused: it saves less than 3 % of the CPU time"


def test_more_threads_are_taken_if_they_save_time(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"auto f32, fast_decode": 1.0, "openvino f32": 0.7, "openvino f32, 2 threads": 0.6}
    assert found(subject, monkeypatch, costs)[0].setting.threads == 2
    findings, said = found(subject, monkeypatch, costs | {"openvino f32, 2 threads": 0.75})
    assert findings.setting.threads == 1
    assert said[-1] == "openvino f32, 2 threads: not compared: it takes no less CPU time than one thread"


def test_answers_of_nothing_agree_with_nothing(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(_: Subject, setting: Setting, pictures: Sequence[Picture], *args: Any) -> Trial:
        nothing: dict[str, Any] = {"mAP": {"found": [], "expected": {}}}
        item = {"cpu": [1.0, 0.5], "wall": [1.0, 0.5], "agreement": nothing}
        return Trial(setting, [item] * len(pictures))

    monkeypatch.setattr(module, "measured", measured)
    findings = Search(subject, PICTURES, 0.03, lambda _: None)
    findings.find()
    assert findings.setting == Setting()
    assert "finds nothing in these pictures" in str(findings.tried)
