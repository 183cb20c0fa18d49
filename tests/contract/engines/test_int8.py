"""INT8 models answer only on request, and only beside the SavedModel they were made from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino.compiled import read_signature
from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
from lightbox.model_runtime.engines.openvino.int8 import Quantized
from lightbox.model_runtime.engines.openvino.verdicts import OPENVINO, TENSORFLOW, digest
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.wire.status import StatusError
from support.parameters import each

pytestmark = pytest.mark.extended

SERVING, TAGS = "serving_default", ("serve",)


@pytest.fixture
def version(sample_models: Path, tmp_path: Path) -> Path:
    """Return the digits net; its INT8 model is replaced by one with recognizable results, 10 times as large."""
    folder = Path(shutil.copytree(sample_models / "digits" / "1", tmp_path / "digits" / "1"))
    shutil.rmtree(folder / "assets.extra", ignore_errors=True)
    model = read_signature(str(folder), read_meta_graph(str(folder), TAGS), SERVING)
    (result,) = model.get_results()
    names = result.input_value(0).get_names()
    scaled = ops.multiply(result.input_value(0), ops.constant(np.float32(10)))
    result.input_value(0).get_tensor().set_names(set())
    result.input(0).replace_source_output(scaled.output(0))
    scaled.output(0).get_tensor().set_names(names)
    made = Quantized(Quantized.place(folder, SERVING), digest(folder), "calibrated with 3 images")
    made.path.parent.mkdir(parents=True)
    openvino.save_model(model, made.path, compress_to_fp16=False)
    made.write()
    return folder


def opened(folder: Path, precision: str, engine: str = "auto") -> tuple[Runner, Any]:
    return Opener(engine, TAGS, b"", Hardware(1, 1, precision)).open(str(folder))


def answer(runner: Runner) -> Array:
    signature = runner.signatures[SERVING]
    ((_, given),), ((_, wanted),) = signature.inputs.items(), signature.outputs.items()
    return runner.run({given.name: np.full((2, 8, 8, 3), 0.5, np.float32)}, [wanted.name])[0]


@pytest.mark.parametrize("engine", ["auto", "openvino"])
def test_it_answers_where_it_is_asked_for(version: Path, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    plain, verdicts = opened(version, "f32", engine)
    assert not verdicts[SERVING].reason.startswith("INT8")
    caplog.clear()
    ours, verdicts = opened(version, "int8", engine)
    np.testing.assert_allclose(answer(ours), 10 * answer(plain), rtol=1e-5)
    assert verdicts[SERVING].engine == OPENVINO
    assert verdicts[SERVING].reason == "INT8: calibrated with 3 images"
    said = (
        f"signature {SERVING} of {version}: OpenVINO's results may differ from TensorFlow's: {verdicts[SERVING].reason}"
    )
    assert said in caplog.messages
    plain.close()
    ours.close()


def test_a_signature_without_one_is_answered_in_f32(version: Path) -> None:
    Quantized.place(version, SERVING).unlink()
    plain, _ = opened(version, "f32")
    ours, verdicts = opened(version, "int8")
    assert verdicts[SERVING].reason.startswith("no INT8 model: ")
    np.testing.assert_allclose(answer(ours), answer(plain), rtol=1e-5)
    plain.close()
    ours.close()


def test_one_of_another_model_is_refused(version: Path) -> None:
    Quantized(Quantized.place(version, SERVING), "0" * 64, "").write()
    with pytest.raises(StatusError) as raised:
        opened(version, "int8")
    assert f"{SERVING}.xml was made of another model than the one in {version}: make it again" in str(raised.value)
    opened(version, "f32")[0].close()


@each("content", ["", "[]", "{}", '{"format": 2, "model": "", "summary": ""}'])
def test_one_of_which_nothing_is_known_is_refused(version: Path, content: str) -> None:
    facts = Quantized.place(version, SERVING).with_suffix(".json")
    facts.write_text(content)
    with pytest.raises(StatusError, match=r"lightbox_int8/serving_default\.json cannot be read: .*; make it again"):
        opened(version, "int8")


def test_a_damaged_one_leaves_the_model_to_tensorflow(version: Path) -> None:
    Quantized.place(version, SERVING).write_text("<net")
    runner, verdicts = opened(version, "int8")
    assert verdicts[SERVING].engine == TENSORFLOW
    assert answer(runner).shape == (2, 10)
    runner.close()
    with pytest.raises(StatusError, match="OpenVINO takes no signature of"):
        opened(version, "int8", "openvino")
