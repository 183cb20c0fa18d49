"""The available transports (REST, gRPC, local), and the reason for each open port."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.features import wants
from lightbox.model.plan import Transports
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.chosen_transports import TransportRefused, transports_to_come
from support.models import copy_golden
from support.real_binary import real_binary

LATER = {"SAGEMAKER_MULTI_MODEL": "true"}
AWS = "def handler(data, context): ..."
OURS = "def preprocess(request): ..."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_golden("half_plus_two", tmp_path / "models" / "half")
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def _binary(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", real_binary(tmp_path)["PATH"])
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("run")))


def transports(root: Path, **environ: str) -> Transports:
    settings = load_settings({"LIGHTBOX_MODEL_DIR": str(root)} | environ)
    return transports_to_come(settings, wants(settings).why_rest)


def write(folder: Path, source: str) -> None:
    folder.mkdir(parents=True)
    (folder / "inference.py").write_text(source)


@pytest.mark.parametrize(
    ("environ", "names", "grpc_port", "rest_port"),
    [
        ({}, "grpc", "", ""),
        ({"LIGHTBOX_TRANSPORT": "grpc"}, "grpc", "", ""),
        ({"LIGHTBOX_TFS_API": "true"}, "grpc", "", "LIGHTBOX_TFS_API"),
        ({"LIGHTBOX_TRANSPORT": "rest"}, "rest", "", "names rest"),
        ({"LIGHTBOX_TRANSPORT": "grpc,rest"}, "grpc rest", "", "names rest"),
        ({"LIGHTBOX_TRANSPORT": "rest,grpc"}, "rest grpc", "", "names rest"),
        ({"LIGHTBOX_MODEL_SERVER": "embedded"}, "local grpc rest", "", ""),
        ({"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_TFS_API": "true"}, "local grpc rest", "", ""),
        ({**LATER, "LIGHTBOX_MODEL_SERVER": "embedded"}, "local grpc rest", "loaded later", "loaded later"),
        ({**LATER, "LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_TRANSPORT": "local"}, "local", "", ""),
        ({**LATER, "LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_MODEL_CODE": "false"}, "local grpc rest", "", ""),
        ({"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_TRANSPORT": "grpc"}, "grpc", "", ""),
        ({"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_TRANSPORT": "rest"}, "rest", "", "names rest"),
        ({"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_TRANSPORT": "rest,local"}, "rest local", "", "names rest"),
        ({"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_TRANSPORT": "inside"}, "inside", "", ""),
        (LATER, "grpc", "", ""),
        ({**LATER, "LIGHTBOX_TRANSPORT": "grpc,rest"}, "grpc rest", "loaded later", "loaded later"),
    ],
)
def test_ports_and_why_they_are_open(
    root: Path, environ: dict[str, str], names: str, grpc_port: str, rest_port: str
) -> None:
    found = transports(root, **environ)
    assert found.names == tuple(names.split())
    for why, expected in ((found.why_grpc_port, grpc_port), (found.why_rest_port, rest_port)):
        assert bool(why) == bool(expected)
        assert expected in (why or "")
    assert found.rest_socket == ("LIGHTBOX_MODEL_SERVER" in environ and "rest" in names)


@pytest.mark.parametrize("name", ["local", "inside"])
def test_there_is_no_local_wire(root: Path, name: str) -> None:
    with pytest.raises(TransportRefused) as caught:
        transports(root, LIGHTBOX_TRANSPORT=f"{name},grpc")
    why = "the embedded model server alone has it"
    assert str(caught.value) == f"LIGHTBOX_TRANSPORT: expected grpc, got {name}: {why}"


def test_models_that_are_loaded_later_are_not_inside(root: Path) -> None:
    with pytest.raises(TransportRefused, match="expected local, grpc, rest, got inside: it is for models that stay"):
        transports(root, **LATER, LIGHTBOX_MODEL_SERVER="embedded", LIGHTBOX_TRANSPORT="inside")


@pytest.mark.parametrize(
    ("place", "multi_model"),
    [
        ("code", "false"),
        ("half/code", "false"),
        ("code", "true"),
        ("half/code", "true"),
        ("half/model/code", "true"),
    ],
)
@pytest.mark.parametrize("source", [AWS, OURS])
def test_aws_handlers_open_both_wherever_they_lie(root: Path, place: str, multi_model: str, source: str) -> None:
    write(root / place, source)
    found = transports(root, SAGEMAKER_MULTI_MODEL=multi_model)
    said = f"{root / place / 'inference.py'} has AWS's handlers, whose context has it" if source == AWS else None
    assert (found.names, found.why_grpc_port, found.why_rest_port) == (("grpc",), said, said)
