"""TensorFlow's threads per operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_files.layout import ModelOnDisk, find_models
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting import commands, op_threads
from lightbox.supervisor.starting.op_threads import OpThreads, choose
from support.model_files import write_dense_as
from support.saved_models import Layer, network, write

LIGHT: Layer = ("Conv2D", (-1, 100, 100, 100), (1, 1, 300, 100))
HEAVY: Layer = ("Conv2D", (-1, 100, 100, 100), (1, 1, 500, 100))
UNKNOWN: Layer = ("Conv2D", (-1, -1, -1, 100), (1, 1, 300, 100))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    set_cores(monkeypatch, 2)
    set_binary(monkeypatch, None)


def set_cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(op_threads, "available_cores", lambda: count)


def set_binary(monkeypatch: pytest.MonkeyPatch, path: str | None, gpus: tuple[str, ...] = ()) -> None:
    monkeypatch.setattr(commands, "_real_binary", lambda: path)
    monkeypatch.setattr(op_threads, "gpu_names", lambda _: list(gpus))


def chosen(folder: Path, *layers: Layer, **environ: str) -> OpThreads:
    """Return the choice for one model per layer; only the newest version of each counts."""
    models = []
    for number, layer in enumerate(layers):
        base = folder / f"net_{number}"
        write(base / "1", network(HEAVY, HEAVY, HEAVY))
        write(base / "2", network(layer))
        models.append(ModelOnDisk(base.name, base))
    return choose(load_settings(environ), models)


def test_one_thread_where_every_model_s_calls_are_short(tmp_path: Path) -> None:
    found = chosen(tmp_path, LIGHT, ("MatMul", (-1, 10), (10, 10)))
    assert (found.count, found.for_server) == (1, 1)
    assert found.why == "net_0 is small: 300 million multiplications per call, the limit is 400 million"


@pytest.mark.parametrize(
    ("layers", "environ", "why"),
    [
        ((LIGHT, HEAVY), {}, "net_1 is large, 500 million multiplications per call, the limit is 400 million"),
        ((LIGHT, UNKNOWN), {}, "the graph of net_1 does not show its multiplications"),
        (
            (LIGHT,),
            {"SAGEMAKER_TFS_ENABLE_BATCHING": "true"},
            "net_0 is large, 2,400 million multiplications per batch of 8, the limit is 400 million",
        ),
        ((), {"SAGEMAKER_MULTI_MODEL": "true"}, "models are loaded later"),
    ],
)
def test_a_thread_for_each_core_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: tuple[Layer, ...], environ: dict[str, str], why: str
) -> None:
    found = chosen(tmp_path / "a", *layers, **environ)
    assert (found.count, found.why) == (2, f"one for each of 2 cores: {why}")
    assert found.for_server == 0, "the embedded server knows the quota, and OpenVINO would take the flag for its own"
    set_binary(monkeypatch, "/bin/tensorflow_model_server")
    assert chosen(tmp_path / "b", *layers, **environ).for_server == 2, "the binary counts the machine's cores"


def test_a_model_that_cannot_be_read_is_no_reason_not_to_start(tmp_path: Path) -> None:
    (tmp_path / "net" / "1").mkdir(parents=True)
    (tmp_path / "net" / "1" / "saved_model.pb").write_bytes(b"\xff")
    found = choose(load_settings({}), [ModelOnDisk("net", tmp_path / "net")])
    assert found.why == "one for each of 2 cores: the graph of net does not show its multiplications"


def test_more_cores_were_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_cores(monkeypatch, 4)
    assert str(chosen(tmp_path, LIGHT)) == "TensorFlow intra-op threads: 4 (one for each of 4 cores)"


def test_one_core_has_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_cores(monkeypatch, 1)
    found = chosen(tmp_path, HEAVY)
    assert (found.count, found.for_server, found.why) == (1, 1, "there is one core")


def test_beside_a_gpu_tensorflow_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_binary(monkeypatch, "/bin/tensorflow_model_server", ("0",))
    found = chosen(tmp_path, LIGHT)
    assert found.for_server == 0
    assert str(found) == "TensorFlow intra-op threads: chosen by TensorFlow (there is a GPU)"


@pytest.mark.parametrize("value", ["0", "3"])
def test_the_setting_wins_and_0_leaves_it_to_tensorflow(tmp_path: Path, value: str) -> None:
    found = chosen(tmp_path, LIGHT, SAGEMAKER_TFS_INTRA_OP_PARALLELISM=value)
    assert found.for_server == int(value)
    assert found.why == f"SAGEMAKER_TFS_INTRA_OP_PARALLELISM={value}"
    assert found.applied(load_settings({})).intra_op_parallelism == int(value)


def test_files_of_other_formats_say_nothing_of_tensorflows_threads(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "m" / "1" / "model.onnx")
    (model,) = find_models(tmp_path)
    found = choose(load_settings({}), [model])
    assert (found.for_server, found.why) == (0, "no model is a SavedModel")
    write(tmp_path / "net" / "1", network(LIGHT))
    assert choose(load_settings({}), find_models(tmp_path)).for_server == 1
