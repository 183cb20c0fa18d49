"""Starts that cannot work end at once, with sentences that name the setting or the path, and no traceback."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.ports import free_ports
from support.models import copy_golden
from support.stack import SERVE, clean_environ, free_port


def refuse(tmp_path: Path, seconds: float = 30.0, **environ: str) -> str:
    """Start with an environment, expect a refusal, and return what was said."""
    tmp = tmp_path / "tmp"
    tmp.mkdir(exist_ok=True)
    base = clean_environ() | {
        "TMPDIR": str(tmp),
        "SAGEMAKER_BIND_TO_PORT": str(free_port()),
        "LIGHTBOX_MODEL_SERVER": "embedded",
    }
    done = subprocess.run(
        [SERVE, "serve"], cwd=tmp_path, env=base | environ, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode not in (0, None), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp.iterdir()), "the run directory was left behind"
    return done.stderr


@pytest.fixture
def models(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    return tmp_path / "models"


def test_every_wrong_setting_is_named(tmp_path: Path, models: Path) -> None:
    said = refuse(
        tmp_path,
        LIGHTBOX_MODEL_DIR=str(models),
        LIGHTBOX_TRANSPORT="carrier pigeon",
        LIGHTBOX_SCALLING="tf",
        SAGEMAKER_GUNICORN_WORKERS="many",
    )
    lines = [line for line in said.splitlines() if line.startswith(("LIGHTBOX_", "SAGEMAKER_"))]
    assert [line.split(":")[0] for line in lines] == [
        "LIGHTBOX_SCALLING",
        "LIGHTBOX_TRANSPORT",
        "SAGEMAKER_GUNICORN_WORKERS",
    ]
    assert "did you mean LIGHTBOX_SCALING?" in lines[0]


def test_wrong_settings_do_not_hide_wrong_models(tmp_path: Path, models: Path) -> None:
    said = refuse(
        tmp_path,
        LIGHTBOX_MODEL_DIR=str(models),
        LIGHTBOX_SCALING="loud",
        SAGEMAKER_TFS_DEFAULT_MODEL_NAME="nobody",
        SAGEMAKER_TFS_INSTANCE_COUNT="3",
        SAGEMAKER_SAFE_PORT_RANGE="9000-9001",
    )
    lines = [line.split(":")[0] for line in said.splitlines() if line.startswith(("LIGHTBOX_", "SAGEMAKER_"))]
    assert lines == ["SAGEMAKER_TFS_INSTANCE_COUNT", "LIGHTBOX_SCALING", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"]


def test_every_wrong_model_is_named(tmp_path: Path, models: Path) -> None:
    said = refuse(tmp_path, LIGHTBOX_MODEL_DIR=str(bad_options(corrupt(models))))
    assert str(models / "broken/1") in said
    assert str(models / "image_mean/code/lightbox.json") in said


def missing(models: Path) -> Path:
    return models / "nowhere"


def empty(models: Path) -> Path:
    (models / "empty").mkdir()
    return models / "empty"


def corrupt(models: Path) -> Path:
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "saved_model.pb").write_bytes(b"garbage" * 10)
    return models


def hollow(models: Path) -> Path:
    """Versions and no SavedModel in any, with no model beside them."""
    (models / "alone" / "broken" / "1").mkdir(parents=True)
    return models / "alone"


def silent(models: Path) -> Path:
    """A SavedModel that has a graph and no signature."""
    (models / "silent" / "1").mkdir(parents=True)
    (models / "silent" / "1" / "saved_model.pb").write_bytes(b"\x12\x09\x0a\x07\x22\x05serve")
    return models


def truncated(models: Path) -> Path:
    copy_golden("half_plus_two", models / "broken")
    for data in (models / "broken").glob("*/variables/variables.data*"):
        data.write_bytes(b"")
    return models


def bad_options(models: Path) -> Path:
    (models / "image_mean" / "code").mkdir()
    (models / "image_mean" / "code" / "lightbox.json").write_text('{"scaling": "loud"}')
    return models


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (missing, "nowhere"),
        (empty, "empty"),
        (corrupt, "broken/1"),
        (hollow, "alone/broken/1"),
        (silent, "silent/1/saved_model.pb has no usable signature"),
        (truncated, "broken/"),
        (bad_options, "image_mean/code/lightbox.json"),
    ],
)
def test_models_that_cannot_be_served(tmp_path: Path, models: Path, spoil: Callable[[Path], Path], named: str) -> None:
    said = refuse(tmp_path, 60, LIGHTBOX_MODEL_DIR=str(spoil(models)))
    assert str(models / named) in said


def test_an_unknown_default_model(tmp_path: Path, models: Path) -> None:
    said = refuse(tmp_path, LIGHTBOX_MODEL_DIR=str(models), SAGEMAKER_TFS_DEFAULT_MODEL_NAME="nobody")
    assert "SAGEMAKER_TFS_DEFAULT_MODEL_NAME" in said
    assert "image_mean" in said


def test_an_output_that_the_default_model_does_not_give(tmp_path: Path, models: Path) -> None:
    said = refuse(tmp_path, LIGHTBOX_MODEL_DIR=str(models), LIGHTBOX_OUTPUTS="median")
    assert "LIGHTBOX_OUTPUTS: the model 'image_mean' gives mean; got median" in said


@pytest.mark.parametrize("variable", ["SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE"])
def test_a_taken_port(tmp_path: Path, models: Path, variable: str) -> None:
    port = free_ports(10)
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        value = str(port) if variable.endswith("PORT") else f"{port}-{port + 5}"
        said = refuse(tmp_path, 30, **{"LIGHTBOX_MODEL_DIR": str(models), variable: value})
    assert f"{variable}: port {port} is taken" in said


def test_a_model_server_that_is_not_there(tmp_path: Path, models: Path) -> None:
    said = refuse(
        tmp_path,
        LIGHTBOX_MODEL_DIR=str(models),
        LIGHTBOX_MODEL_SERVER="tensorflow_model_server",
        PATH="/usr/bin:/bin:/usr/sbin",
    )
    assert "LIGHTBOX_MODEL_SERVER" in said


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/proc", "/etc/hostname"])
def test_no_folder_to_write_to(tmp_path: Path, models: Path, folder: str) -> None:
    said = refuse(tmp_path, LIGHTBOX_MODEL_DIR=str(models), TMPDIR=folder)
    assert f"TMPDIR: Lightbox needs a folder that it can write to, and {folder} is none" in said


def test_check_prints_settings_and_models(tmp_path: Path, models: Path) -> None:
    (models / "code").mkdir()
    (models / "code" / "inference.py").write_text("def handler(data, context): ...")
    environ = clean_environ() | {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_TRANSPORT": "rest"}
    done = subprocess.run(
        [SERVE, "check"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=30, check=True
    )
    assert "LIGHTBOX_TRANSPORT=rest" in done.stdout
    assert f"model: image_mean in {models}/image_mean (default)" in done.stdout
    assert f"its code: {models}/code/inference.py" in done.stdout
    assert "its signature serving_default: image (uint8 [-1,8,8,3]) -> mean (float32 [-1,3])" in done.stdout


def test_check_says_what_a_start_would_stumble_over(tmp_path: Path, models: Path) -> None:
    with socket.socket() as other:  # a Lightbox that runs, say
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = {"SAGEMAKER_BIND_TO_PORT": str(other.getsockname()[1])}
        environ = clean_environ() | port | {"LIGHTBOX_MODEL_DIR": str(models)}
        misfits = {"LIGHTBOX_OUTPUTS": "median", "LIGHTBOX_SCALING": "tf"}
        for more, code in ((dict[str, str](), 0), (misfits, 1)):
            done = subprocess.run(
                [SERVE, "check"],
                cwd=tmp_path,
                env=environ | more,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == code
            assert f"LIGHTBOX_MODEL_DIR={models}" in done.stdout
    assert [line.split(":")[0] for line in done.stderr.splitlines()[1:]] == ["LIGHTBOX_OUTPUTS", "LIGHTBOX_SCALING"]


def test_unknown_commands_show_the_usage(tmp_path: Path) -> None:
    done = subprocess.run([SERVE, "dance"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "usage: serve.sh" in done.stderr
