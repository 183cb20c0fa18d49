"""A setting beside the present one, in a process of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lightbox.model_runtime.engines.setting import Setting
from lightbox.tools.optimize import trial as module
from lightbox.tools.optimize.pictures import find_pictures
from lightbox.tools.optimize.trial import Subject, TrialFailed, measured


def test_both_answer_the_same_pictures_once(
    subject: Subject, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "CHUNK", 2)
    pictures, done = find_pictures(photos)[:3], list[int]()
    trial = measured(subject, Setting("openvino"), pictures, "", say=done.append)
    assert done == [2, 3]
    assert trial.agreement() == {"top-1": 1}
    assert trial.truth() == [{"accuracy": 1}, {"accuracy": 1}]
    assert all(0 < part < 10_000 for kind in ("cpu", "wall") for part in trial.milliseconds(kind))
    monkeypatch.setattr(module, "run", None)  # a second run reads what the first has measured
    assert measured(subject, Setting("openvino"), pictures, "") == trial
    with pytest.raises(TypeError):
        measured(subject, Setting("openvino"), pictures, "another calibration")
    with pytest.raises(TypeError):
        measured(dataclasses.replace(subject, resolved='{"top_k":1}'), Setting("openvino"), pictures, "")


def test_a_setting_that_cannot_be_loaded_says_why(
    subject: Subject, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(TrialFailed, match="has no INT8 model: lightbox optimize makes one"):
        measured(subject, Setting("openvino", "int8"), find_pictures(photos)[:1], "")
