"""The choice of an engine for a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lightbox.model_runtime.engines import ENGINES
from lightbox.model_runtime.engines import selection as choice
from lightbox.model_runtime.engines.engine import Choice, Engine
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino import signatures
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.wire.status import Code, StatusError
from support.descriptors import few_descriptors
from support.models import export_convolution
from support.onnx_models import write_dense

RUNTIMES = sorted(name for name in ENGINES if name != "tensorflow")


def test_a_choice_is_between_engines_that_have_the_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without running them, as not every processor has it."""
    write_dense(tmp_path / "model.onnx")
    raced: list[list[str]] = []

    def note(folder: str, able: Sequence[Engine], hardware: Hardware) -> tuple[Engine, Choice]:
        raced.append(sorted(engine.name for engine in able))
        return able[0], Choice(able[0].name, "")

    monkeypatch.setattr(choice, "fastest", note)
    for precision in ("f32", "bf16"):
        Opener("auto", ("serve",), b"", Hardware(2, 2, precision)).choices(str(tmp_path), compares=True, keeps=False)
    assert raced == [RUNTIMES, ["openvino"]]


def test_a_process_without_descriptors_does_not_blame_the_models_file(tmp_path: Path) -> None:
    options = tmp_path / "code" / "lightbox.json"
    options.parent.mkdir()
    options.write_text('{"engine": "openvino"}')
    with few_descriptors(), pytest.raises(StatusError, match="Too many open files") as lack:
        choice.own_options(str(tmp_path / "1"))
    assert lack.value.code is Code.RESOURCE_EXHAUSTED


def test_a_process_opens_what_another_has_chosen_and_finds_out_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "judge", lambda task: pytest.fail("a child process compares engines"))
    export_convolution(tmp_path)
    folder, chosen = str(tmp_path / "1"), {"serving_default": "openvino"}
    opener = Opener("auto", ("serve",), b"", Hardware(1, 1, cache_folder=str(tmp_path / "cache")))
    with pytest.raises(StatusError, match="its engine is tensorflow"):
        opener.open_as(folder, {"serving_default": "tensorflow"})
    runner = opener.open_as(folder, chosen)
    signature = runner.signatures["serving_default"]
    (x,), (y,) = ([info.name for info in infos.values()] for infos in (signature.inputs, signature.outputs))
    (found,) = runner.run({x: np.ones((1, 6, 6, 3), np.float32)}, [y])
    assert found.tolist() == [[[[108.0]]]]
    with pytest.raises(StatusError, match="another process answers it"):  # TensorFlow alone says what becomes of it
        runner.run({x: np.full((1, 6, 6, 3), np.nan, np.float32)}, [y])
