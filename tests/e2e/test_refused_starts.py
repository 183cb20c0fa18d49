"""A start that cannot succeed, as only processes show it: the exit code, and that nothing is left behind.

tests/unit/lightbox/cli/test_starting.py has the refusals.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lightbox.base.run_dir import port_is_free
from support import commands
from support.held import Door, export_held_image, held_call
from support.isolation import own_environ
from support.log_lines import without_times
from support.model_files import write_dense_as
from support.models import copy_golden, write_warm_up
from support.patience import PATIENCE, poll
from support.stack import SERVE

pytestmark = pytest.mark.extended


def refuse(tmp_path: Path, models: Path, command: str, **environ: str) -> str:
    """Start, or check, models; expect a refusal that leaves nothing, and return what it writes."""
    (tmp := tmp_path / "tmp").mkdir(exist_ok=True)
    own = own_environ(tmp) | {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded"}
    done = commands.run([SERVE, command], env=own | environ, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert port_is_free(int(own["SAGEMAKER_BIND_TO_PORT"]))
    assert not list(tmp.iterdir()), "the run directory was left behind"
    return without_times(done.stderr)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    return tmp_path / "models"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"LIGHTBOX_TRANSPORT": "carrier pigeon"}, "LIGHTBOX_TRANSPORT: "),
        ({}, "{models}/code/inference.py: importing it ended the process"),  # in a process of the start's
    ],
)
def test_a_refused_start_leaves_nothing_and_ends_as_check_does(
    tmp_path: Path, models: Path, environ: dict[str, str], sentence: str
) -> None:
    (models / "code").mkdir()
    (models / "code" / "inference.py").write_text("import os; os._exit(3)")
    for command in ("check", "serve"):
        said = refuse(tmp_path, models, command, **environ)
        lines = [line.removeprefix("[lightbox] ") for line in said.splitlines()]
        assert any(line.startswith(sentence.format(models=models)) for line in lines), said


HIDE = """
import importlib.util as util
real = util.find_spec
util.find_spec = lambda name, package=None: None if name in {hidden} else real(name, package)
"""
"""A sitecustomize.py that makes packages look as if they were not installed."""


def onnx(models: Path) -> Path:
    write_dense_as(models / "net" / "1" / "model.onnx")
    return models / "net"


def on_a_gpu(models: Path) -> Path:
    """A SavedModel like TensorFlow Serving's own saved_model_half_plus_two_gpu."""
    from tensorflow.core.protobuf import saved_model_pb2

    copy_golden("half_plus_two", models / "half")
    for file in models.glob("half/*/saved_model.pb"):
        graph = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        for node in graph.meta_graphs[0].graph_def.node:
            node.device = "/device:GPU:0"
        file.write_bytes(graph.SerializeToString())
    return models / "half"


@pytest.mark.parametrize(
    ("make", "hidden", "engine", "words"),
    [
        (
            onnx,
            ("openvino", "onnxruntime"),
            "",
            "which needs openvino or onnxruntime: pip install 'lightbox-serve[openvino]'",
        ),
        (onnx, ("onnxruntime",), "onnxruntime", "which needs onnxruntime: pip install 'lightbox-serve[onnxruntime]'"),
        (on_a_gpu, (), "", "Cannot assign a device for operation"),
    ],
)
def test_check_refuses_what_a_model_server_refuses(
    tmp_path: Path, make: Callable[[Path], Path], hidden: tuple[str, ...], engine: str, words: str
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDE.format(hidden=hidden))
    models, environ = make(tmp_path / "models"), {"LIGHTBOX_ENGINE": engine, "PYTHONPATH": str(tmp_path / "site")}
    served, checked = (refuse(tmp_path, models, command, **environ).splitlines()[-1] for command in ("serve", "check"))
    assert words in checked
    assert served.removeprefix("[lightbox] ") == checked


def test_a_signal_ends_a_check_and_its_processes(tmp_path: Path) -> None:
    (tmp := tmp_path / "tmp").mkdir()
    environ = {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models"), "LIGHTBOX_MODEL_SERVER": "embedded"}
    with Door(tmp_path / "place") as door:
        export_held_image(tmp_path / "models" / "held", door)
        write_warm_up(tmp_path / "models" / "held" / "1", held_call())
        with subprocess.Popen([SERVE, "check"], env=own_environ(tmp) | environ, stderr=subprocess.DEVNULL) as check:
            try:
                door.wait_for()
                below = psutil.Process(check.pid).children(recursive=True)
                check.terminate()
                check.wait(PATIENCE)
                assert below
                assert any(not any(process.is_running() for process in below) for _ in poll())
            finally:
                check.kill()
    assert not list(tmp.iterdir()), "the run directory was left behind"


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_temporary_folder_that_is_full(tmp_path: Path, models: Path, command: str) -> None:
    """The folder is a file system of 256 KiB that only the command sees."""
    (tmp := tmp_path / "tmp").mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mount -t tmpfs -o size=256k none "$TMPDIR"; "$0" "$1" || (ls "$TMPDIR"; exit 1)'
    environ = {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_MODEL_SERVER": "embedded"}
    done = commands.run(
        ["unshare", *user, "--mount", "sh", "-ec", script, str(SERVE), command], env=own_environ(tmp) | environ
    )
    assert done.returncode == 1
    expected = f"TMPDIR: a start needs 1,048,576 bytes, and {tmp} has "
    assert done.stderr.splitlines()[-1].startswith(expected)
    assert "Traceback" not in done.stderr
    assert "lightbox-" not in done.stdout, "the run directory was left behind"
