"""Models whose files lie behind links: to several folders, or into another process's root, as KServe's modelcars."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

import lightbox
from lightbox.base.errors import StartError
from lightbox.features.multi_model import MultiModel
from lightbox.model_files.checks import show_versions, versions_of
from lightbox.model_files.layout import find_models
from lightbox.model_runtime.engines import ENGINES
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import own_options
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.models_on_disk import code_dirs
from support.model_files import dense, write_dense_as
from support.models import copy_golden
from support.parameters import each

RUNTIMES = [name for name in ENGINES if name != "tensorflow"]
ROWS = np.array([[1, 0, 2, 1]], np.float32)


def write_outside(file: Path, weights: str) -> None:
    """Write the model of ``write_dense_as`` with its weights in another file."""
    write_dense_as(file)
    model = onnx.load(file)
    onnx.save(model, file, save_as_external_data=True, location=weights, size_threshold=0)


def answered(folder: Path, engine: str) -> bool:
    runner = named(engine).open(str(folder), OpenOptions(Hardware(1, 1), ("serve",))).runner
    return np.allclose(runner.run({"x": ROWS}, ["y"])[0], dense(ROWS), rtol=1e-5)


LINKED = [("model.onnx", "w.bin"), ("w.bin",), ("model.onnx",)]


@each(("engine", "linked"), [*product(RUNTIMES, LINKED), ("openvino", ("model.xml", "model.bin"))])
@each("blob", ["abc", "abc{suffix}"])
def test_weights_behind_links_to_several_folders(
    tmp_path: Path, engine: str, linked: tuple[str, ...], blob: str
) -> None:
    if "model.xml" in linked:
        write_dense_as(tmp_path / "1" / "model.xml")
    else:
        write_outside(tmp_path / "1" / "model.onnx", "w.bin")
    for number, name in enumerate(linked):
        file = tmp_path / "1" / name
        (target := tmp_path / "blobs" / str(number) / blob.format(suffix=file.suffix)).parent.mkdir(parents=True)
        file.rename(target)
        file.symlink_to(target)
    assert answered(tmp_path / "1", engine)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A link to a folder of a process with its own mounts, which holds a copy of ``tmp_path/models``."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mkdir "$1" && mount -t tmpfs none "$1" && cp -r "$0"/. "$1" && echo there && exec sleep infinity'
    command = ["unshare", *user, "--mount", "sh", "-ec", script, str(tmp_path / "models"), str(tmp_path / "own")]
    write_outside(tmp_path / "models" / "weights" / "1" / "model.onnx", "w.bin")
    write_dense_as(tmp_path / "models" / "flat" / "model.xml")
    write_dense_as(tmp_path / "models" / "lite" / "7" / "model.tflite")
    (tmp_path / "models" / "linked" / "1").mkdir(parents=True)
    (tmp_path / "models" / "linked" / "1" / "model.xml").symlink_to("../../flat/model.xml")
    copy_golden("image_mean", tmp_path / "models" / "saved")
    (tmp_path / "models" / "saved" / "code").mkdir()
    (tmp_path / "models" / "saved" / "code" / "lightbox.json").write_text('{"engine": "tensorflow"}')
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "there\n"
            link = tmp_path / "elsewhere"
            link.symlink_to(Path("/proc", str(process.pid), "root", str(tmp_path)[1:], "own"))
            yield link
        finally:
            process.kill()


def test_models_in_another_process_s_root(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartError, match="leads out of the model's folder"):
        lightbox.load(elsewhere / "linked")
    monkeypatch.setenv("LIGHTBOX_LINKED_FOLDERS", str(elsewhere / "flat"))
    for name in ("flat", "lite", "linked"):
        assert lightbox.load(elsewhere / name).engine in RUNTIMES
    for engine in RUNTIMES:
        assert lightbox.load(elsewhere / "weights", engine=engine).engine == engine
    (saved,) = find_models(elsewhere / "saved")
    show_versions(saved, elsewhere.parent / "shown", code_dirs(saved, ()))
    ((version, _),) = versions_of(saved)
    assert own_options(str(elsewhere.parent / "shown" / str(version))) == {"engine": "tensorflow"}


def test_multi_model_mode_refuses_another_process_s_root(elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("models")
    MultiModel().check(load_settings({"LIGHTBOX_MODEL_DIR": str(tmp_path / "here")}))
    with pytest.raises(StartError, match=r"^LIGHTBOX_MODEL_DIR: .* another process's root; .*, got .*/elsewhere$"):
        MultiModel().check(load_settings({"LIGHTBOX_MODEL_DIR": str(elsewhere)}))
