"""Checks before a start: problems, warnings and accepted settings."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lightbox.base.settings import Settings
from lightbox.features import wants
from lightbox.model_files.layout import WEIGHTS_NOTE
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting import start_checks
from lightbox.supervisor.starting.start_checks import find_lasting_problems, find_problems, find_warnings
from lightbox.tools.harness.ports import free_ports
from support.models import copy_golden


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "image_mean")
    copy_golden("half_plus_two", tmp_path / "half_plus_two")
    return tmp_path


def settings(root: Path, **environ: str) -> Settings:
    base = {"LIGHTBOX_MODEL_DIR": str(root), "SAGEMAKER_BIND_TO_PORT": str(free_ports())}
    return load_settings(base | {"LIGHTBOX_MODEL_SERVER": "embedded"} | environ)


def problems_of(chosen: Settings) -> list[str]:
    """Return the problems, including the needs of the features."""
    return find_problems(chosen, wants=wants(chosen))


@pytest.mark.parametrize("variable", ["SAGEMAKER_BIND_TO_PORT", "LIGHTBOX_KSERVE_GRPC_PORT"])
def test_a_port_for_callers_that_a_model_server_is_to_have(root: Path, variable: str) -> None:
    low = free_ports(5)
    port = low + 2
    chosen = {"SAGEMAKER_SAFE_PORT_RANGE": f"{port - 1}-{port + 2}", variable: str(port)}
    assert problems_of(settings(root, **chosen)) == []
    (problem,) = problems_of(settings(root, **chosen, LIGHTBOX_TRANSPORT="rest"))
    expected = f"SAGEMAKER_SAFE_PORT_RANGE: port {port}, for REST of model server 0, is also the value of {variable}"
    assert problem == f"{expected}; choose another range or another port"
    beyond = {"SAGEMAKER_SAFE_PORT_RANGE": f"{port - 2}-{port + 2}", variable: str(port)}
    assert problems_of(settings(root, **beyond, LIGHTBOX_TRANSPORT="rest")) == []


def test_every_taken_port_of_a_range_is_a_sentence_of_its_own(root: Path) -> None:
    low = free_ports(4)
    with socket.create_server(("", low)), socket.create_server(("", low + 3)):
        own = {"SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 3}", "SAGEMAKER_TFS_INSTANCE_COUNT": "2"}
        chosen = settings(root, **own, SAGEMAKER_MULTI_MODEL="true")
        assert find_problems(chosen) == [
            f"SAGEMAKER_SAFE_PORT_RANGE: port {low}, for gRPC of model server 0, is taken by another process",
            f"SAGEMAKER_SAFE_PORT_RANGE: port {low + 3}, for REST of model server 1, is taken by another process",
        ]


def test_one_line_for_what_two_models_share(root: Path) -> None:
    (root / "code").mkdir()
    (root / "code" / "lightbox.json").write_text("{")
    (problem,) = find_problems(settings(root))
    assert str(root / "code" / "lightbox.json") in problem


def test_what_hangs_on_a_refused_variable_is_not_judged(root: Path) -> None:
    nowhere = settings(root / "nowhere")
    assert len(find_problems(nowhere)) == 1
    assert find_problems(nowhere, {"LIGHTBOX_MODEL_DIR"}) == []


def test_code_that_universal_code_may_complete_is_not_judged_yet(root: Path) -> None:
    (root / "image_mean" / "code").mkdir()
    (root / "image_mean" / "code" / "lightbox.json").write_text('{"labels": "labels.txt"}')
    assert len(find_problems(settings(root))) == 1
    universal = {
        "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": "b",
        "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": "p",
    }
    assert find_problems(settings(root, **universal)) == []


def test_data_beside_a_model_is_reported_and_stops_nothing(root: Path) -> None:
    (root / "data" / "2024").mkdir(parents=True)
    (root / "data" / "2024" / "x.csv").touch()
    assert find_problems(settings(root)) == []
    (warning,) = find_warnings(settings(root))
    assert f"{root / 'data'} is not a model" in warning


def test_a_limit_that_cannot_hold_the_processes_and_a_request_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(root, SAGEMAKER_GUNICORN_WORKERS="2")
    monkeypatch.setattr(start_checks, "container_bytes", lambda: 400 << 20)
    (warning,) = find_warnings(chosen)
    assert warning.startswith("the container has 400 MiB of memory, and its processes with the models (0 MiB of files)")
    weights = root / "half_plus_two" / "2" / "weights"
    with weights.open("wb") as file:
        file.truncate(600 << 20)
    monkeypatch.setattr(start_checks, "container_bytes", lambda: 1 << 30)
    (warning,) = find_warnings(chosen)
    assert warning.startswith("the container has 1024 MiB of memory, and its processes with the models (600 MiB")
    weights.unlink()
    assert find_warnings(chosen) == []


def test_random_weights_are_reported_and_others_are_not(root: Path) -> None:
    for model, note in (
        ("image_mean", "random weights (seed 5): the predictions are meaningless"),
        ("half_plus_two", "Ours"),
    ):
        version = max((root / model).glob("*/saved_model.pb")).parent
        (version / WEIGHTS_NOTE).parent.mkdir(exist_ok=True)
        (version / WEIGHTS_NOTE).write_text(f"{note}\nmore\n")
    assert find_problems(settings(root)) == []
    assert find_warnings(settings(root)) == [
        "image_mean has random weights (seed 5): the predictions are meaningless",
    ]


def test_a_version_that_is_served_as_a_model_or_lies_too_deep(root: Path) -> None:
    versions = root / "image_mean"
    (number,) = versions.iterdir()
    number.rename(root / "v2")
    versions.rmdir()
    (warning,) = find_warnings(settings(root))
    assert warning.endswith(f"a version has a number alone: 2 for version 2 of {root.name}")
    (root / "half_plus_two" / "7").mkdir()
    (root / "v2").rename(deep := root / "half_plus_two" / "7" / "7")
    (problem,) = find_problems(settings(root))
    assert problem.endswith(f"{deep} holds a model, too deep: move what it holds into {deep.parent}")


def test_a_version_without_a_saved_model(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (root / "image_mean" / "9").mkdir()
    (problem,) = find_problems(settings(root))
    assert problem == f"LIGHTBOX_MODEL_DIR: {root / 'image_mean' / '9'} holds no saved_model.pb; the folder is empty"
    alone = tmp_path_factory.mktemp("alone")
    (alone / "2024").mkdir()
    assert f"LIGHTBOX_MODEL_DIR: {alone / '2024'} holds no saved_model.pb; the folder is empty" in find_problems(
        settings(alone)
    )


def test_ports_are_no_matter_of_what_lasts(root: Path) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        taken = settings(root, SAGEMAKER_BIND_TO_PORT=str(other.getsockname()[1]))
        assert len(find_problems(taken)) == 1
        assert find_lasting_problems(taken) == []
