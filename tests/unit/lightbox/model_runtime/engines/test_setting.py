"""The setting in a model's folder, and where it holds."""

from __future__ import annotations

import logging
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines import setting as module
from lightbox.model_runtime.engines.__main__ import main
from lightbox.model_runtime.engines.engine import engines
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.engines.setting import IN_MODEL, Setting, keep, setting_of
from support.onnx_models import write_dense
from support.parameters import each

FILES = next(engine.name for engine in engines() if engine.follows_files)


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """Return a version of a model with a setting."""
    write_dense(tmp_path / "m" / "1" / "model.onnx")
    keep(tmp_path / "m" / "1", Setting(FILES, level="basic", threads=2), {"budget": 0.01})
    return tmp_path / "m" / "1"


def opened(version: Path, hardware: Hardware, **options: str) -> Any:
    return Opener("auto", ("serve",), b"", hardware, options=options).open(str(version))


def test_auto_takes_it(version: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    runner, choices = opened(version, Hardware(2, 2))
    assert choices["serving_default"].engine == FILES
    said = f"{version} is served by the setting that lightbox optimize has found: {FILES} basic f32, 2 threads"
    assert said in caplog.messages
    given = np.ones((1, 4), np.float32)
    assert runner.run({"x": given}, ["y"])[0].shape == (1, 3)
    content = disk_cache.read(version / IN_MODEL) or {}
    assert content["optimized"]["report"] == {"budget": 0.01}
    assert set(content["optimized"]["holds_for"]) == {"file", "engine", "processor"}


def test_it_does_not_hold_for_another_file(version: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (version / "model.onnx").open("ab") as file:
        file.write(b"\x82\x01\x00")
    setting, why = setting_of(version, {})
    assert setting is None
    assert why.startswith("it was found for the file '")
    opened(version, Hardware(2, 2))
    assert f"{version} is served without the setting that lightbox optimize has found: {why}" in caplog.messages


def test_it_does_not_hold_elsewhere(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processor", lambda: "another")
    monkeypatch.setattr(metadata, "version", lambda _: "0.1")
    setting, why = setting_of(version, {})
    assert setting is None
    assert why.startswith(f"it was found for the engine '{FILES} 1.")
    assert " and the processor '" in why
    assert why.endswith("run lightbox optimize again")


@each(
    ("own", "why"),
    [
        ({"precision": "f32"}, "the options set the precision"),
        ({"engine": "openvino", "precision": "bf16"}, "the options set the engine and the precision"),
        ({"engine": "auto", "top_k": 3}, ""),
    ],
)
def test_options_win_over_it(version: Path, own: dict[str, Any], why: str) -> None:
    setting, said = setting_of(version, own)
    assert said == why
    assert (setting is None) == bool(why)


@each(
    "fields",
    [
        {"engine": "../x"},
        {"precision": "f16"},
        {"level": "most"},
        {"threads": 0},
        {"threads": True},
        {"more": 1},
        {"fast_decode": 1},
    ],
)
def test_one_that_cannot_be_is_not_taken(version: Path, fields: dict[str, Any]) -> None:
    content = disk_cache.read(version / IN_MODEL) or {}
    content["optimized"]["setting"] |= fields
    disk_cache.write(version / IN_MODEL, content)
    assert setting_of(version, {}) == (None, f"{version / IN_MODEL} cannot be used: run lightbox optimize again")


def test_without_one_nothing_is_said(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    assert setting_of(tmp_path, {}) == (None, "")


def test_the_report_of_engines_names_it(version: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(version)]) == 0
    assert f"; auto takes the setting of lightbox optimize: {FILES} basic f32, 2 threads\n" in capsys.readouterr().out
    main([str(version), "--precision=bf16"])
    assert (
        "; auto does not take the setting of lightbox optimize: the options set the precision\n"
        in capsys.readouterr().out
    )
