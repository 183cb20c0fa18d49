"""TensorFlow's threads per operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.settings import Settings
from lightbox.model_files.layout import ModelOnDisk
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting import commands, op_threads
from lightbox.supervisor.starting.op_threads import SMALL_BYTES, threads_lines, with_op_threads
from support.model_files import write_dense_as

SMALL, LARGE = SMALL_BYTES - 1, SMALL_BYTES


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    set_cores(monkeypatch, 2)
    set_binary(monkeypatch, None)


def set_cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(op_threads, "available_cores", lambda: count)


def set_binary(monkeypatch: pytest.MonkeyPatch, path: str | None, gpus: tuple[str, ...] = ()) -> None:
    monkeypatch.setattr(commands, "_real_binary", lambda: path)
    monkeypatch.setattr(op_threads, "gpu_names", lambda _: list(gpus))


def chosen(folder: Path, *sizes: int, **environ: str) -> Settings:
    """Return the choice for one SavedModel per size; only the newest version of each counts."""
    models = []
    for number, size in enumerate(sizes):
        base = folder / f"net_{number}"
        for version, version_bytes in (("1", LARGE), ("2", size)):
            variables = base / version / "variables" / "variables.data-00000-of-00001"
            variables.parent.mkdir(parents=True)
            with variables.open("wb") as file:
                file.truncate(version_bytes)
            (base / version / "saved_model.pb").touch()
        models.append(ModelOnDisk(base.name, base))
    return with_op_threads(load_settings(environ), models)


def test_one_thread_on_two_cores_where_every_saved_model_is_small(tmp_path: Path) -> None:
    found = chosen(tmp_path, SMALL, 0)
    assert found.intra_op_parallelism == 1
    assert threads_lines(found, [ModelOnDisk("m", tmp_path / "net_0")]) == ["TensorFlow intra-op threads: 1"]


@pytest.mark.parametrize(
    ("cores", "sizes", "environ"),
    [
        (2, (SMALL, LARGE), {}),
        (2, (SMALL,), {"SAGEMAKER_TFS_ENABLE_BATCHING": "true"}),
        (2, (), {"SAGEMAKER_MULTI_MODEL": "true"}),
        (4, (SMALL,), {}),
    ],
    ids=["large", "batches", "models are loaded later", "more cores were not measured"],
)
def test_a_thread_for_each_core_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, sizes: tuple[int, ...], environ: dict[str, str]
) -> None:
    set_cores(monkeypatch, cores)
    found = chosen(tmp_path / "a", *sizes, **environ)
    models = [ModelOnDisk("m", tmp_path / "a" / "net_0")] if sizes else []
    assert threads_lines(found, models) == ["TensorFlow intra-op threads: chosen by the model server"]
    assert found.intra_op_parallelism == 0, "the embedded server knows the quota, OpenVINO would take the flag as well"
    set_binary(monkeypatch, "/bin/tensorflow_model_server")
    of_binary = chosen(tmp_path / "b", *sizes, **environ)
    assert of_binary.intra_op_parallelism == cores, "the binary counts the machine's cores"
    set_binary(monkeypatch, "/bin/tensorflow_model_server", ("0",))
    assert chosen(tmp_path / "c", *sizes, **environ).intra_op_parallelism == 0, "beside a GPU TensorFlow chooses"


def test_one_core_has_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_cores(monkeypatch, 1)
    assert chosen(tmp_path, LARGE).intra_op_parallelism == 1


@pytest.mark.parametrize("value", [0, 3])
def test_the_setting_wins_and_0_leaves_it_to_tensorflow(tmp_path: Path, value: int) -> None:
    found = chosen(tmp_path, SMALL, SAGEMAKER_TFS_INTRA_OP_PARALLELISM=str(value))
    assert found.intra_op_parallelism == value


def test_the_size_of_files_of_other_formats_does_not_count(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "1" / "model.onnx")
    with (tmp_path / "1" / "weights").open("wb") as file:
        file.truncate(LARGE)
    models = [ModelOnDisk("m", tmp_path)]
    found = with_op_threads(load_settings({}), models)
    assert (found.intra_op_parallelism, threads_lines(found, models)) == (1, []), "TensorFlow has no threads here"
