"""An archive in the layout of the detection zoo, with a small model of the same signature."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.tools.model_zoo import published
from lightbox.tools.model_zoo.detection_outputs import OUTPUTS
from lightbox.tools.model_zoo.export import export
from lightbox.tools.model_zoo.folder import Refused
from lightbox.tools.model_zoo.image_model import InputForm

pytestmark = pytest.mark.extended


def pack(saved_model: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(saved_model, "efficientdet_d1_coco17_tpu-32/saved_model")
    return archive


@pytest.fixture
def zoo_model(tmp_path: Path) -> Path:
    """Export a SavedModel with the published signature and open image size; each output is the image's mean plus 1."""
    import tensorflow as tf

    module = tf.Module()
    module.one = tf.Variable(1.0)

    def serve(input_tensor: Any) -> dict[str, Any]:
        level = tf.reduce_mean(tf.cast(input_tensor, tf.float32)) + module.one
        return {name: tf.fill(shape, level) for name, shape in OUTPUTS.items()}

    image = tf.TensorSpec([1, None, None, 3], tf.uint8, name="input_tensor")
    function = tf.function(serve, input_signature=[image], autograph=False)
    tf.saved_model.save(module, str(tmp_path / "zoo"), signatures=function.get_concrete_function())
    return tmp_path / "zoo"


@pytest.mark.parametrize("form", ["uint8", "float32"])
def test_the_archived_model_answers_behind_our_inputs(
    zoo_model: Path, predict: Any, signature: Any, tmp_path: Path, form: InputForm
) -> None:
    model = published.image_model(pack(zoo_model, tmp_path / "model.tar.gz"))
    out = tmp_path / "exported"
    export(model, form, out)
    pixels = np.random.default_rng(7).integers(0, 256, (1, 640, 640, 3)).astype(form)
    found = predict(out, pixels)
    assert {name: value.shape for name, value in found.items()} == OUTPUTS
    for name, value in found.items():
        np.testing.assert_allclose(value, np.mean(pixels, dtype=np.float64) + 1, rtol=1e-5, err_msg=name)
    (inputs,) = signature(out).structured_input_signature[1].values()
    assert (inputs.name, inputs.dtype.name, inputs.shape.as_list()) == ("input_tensor", form, [1, 640, 640, 3])
    assert not model.random


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(b"not an archive")
    with pytest.raises(Refused, match=r"model.tar.gz is not a .tar.gz archive that can be read"):
        published.image_model(path)


def test_an_archive_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refused, match="must hold one SavedModel; it holds 0"):
        published.image_model(pack(tmp_path / "folder", tmp_path / "model.tar.gz"))


def test_another_kind_of_model_is_refused(sample_models: Path, tmp_path: Path) -> None:
    archive = pack(sample_models / "digits" / "1", tmp_path / "model.tar.gz")
    with pytest.raises(Refused, match="is no detector of the zoo: it lacks detection_anchor_indices, "):
        published.image_model(archive)


def test_a_failed_download_says_what_else_can_be_done(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.setattr(published, "ARCHIVE_URL", f"http://127.0.0.1:{closed_port}/model.tar.gz")
    with pytest.raises(Refused, match=r"cannot be downloaded \(.*refused\): .* --archive FILE"):
        published.image_model(None)
