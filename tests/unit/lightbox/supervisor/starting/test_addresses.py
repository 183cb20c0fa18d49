"""The ports of the model servers, and the lines of the log about ports and callers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.core.additions import Port
from lightbox.features import wants
from lightbox.model.plan import Transports
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.addresses import callers_line, choose_addresses, listening
from lightbox.supervisor.starting.chosen_transports import transports_to_come
from support.parameters import each


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return {"LIGHTBOX_MODEL_DIR": str(tmp_path), "LIGHTBOX_MODEL_SERVER": "embedded", "SAGEMAKER_MULTI_MODEL": "true"}


@pytest.mark.parametrize("port", [9000, 8501])
@pytest.mark.parametrize("variable", ["SAGEMAKER_BIND_TO_PORT", "LIGHTBOX_KSERVE_GRPC_PORT"])
def test_without_a_range_the_model_server_leaves_the_ports_for_callers(
    environ: dict[str, str], variable: str, port: int
) -> None:
    chosen = load_settings(environ | {variable: str(port)})
    with RunDir() as run_dir:
        addresses = choose_addresses(chosen, run_dir, transports_to_come(chosen), wants(chosen).ports)
    assert port not in {own for address in addresses for own in (address.grpc_port, address.rest_port)}


def test_model_servers_take_no_port_of_others_nor_one_that_an_outgoing_connection_may_have(
    environ: dict[str, str],
) -> None:
    chosen = load_settings(environ | {"SAGEMAKER_TFS_INSTANCE_COUNT": "2"})
    with RunDir() as first, RunDir() as second:
        ports = [
            port
            for run_dir in (first, second)
            for address in choose_addresses(chosen, run_dir, transports_to_come(chosen))
            for port in (address.grpc_port, address.rest_port)
        ]
    assert len(set(ports)) == 8
    assert all(port is not None and port < 32768 for port in ports)


@each(
    ("authority", "sentence", "expected"),
    [
        ("", None, "no keys are set: everyone who reaches port 8080 or 8081 may use it (docs/keys.md)"),
        ("/ca", None, "no keys are set: every holder of a client certificate who reaches port 8080 or 8081 may use it"),
        ("", "holders of a key", "callers: holders of a key"),
        ("/ca", "holders of a key", "callers: holders of a key"),
    ],
)
def test_who_may_call_is_reported_with_all_ports(authority: str, sentence: str | None, expected: str) -> None:
    settings = load_settings({"LIGHTBOX_TLS_CLIENT_CA": authority})
    assert callers_line(settings, [Port("LIGHTBOX_KSERVE_GRPC_PORT", 8081, "")], sentence).startswith(expected)


def test_a_port_that_speaks_tls_is_reported(environ: dict[str, str]) -> None:
    settings = load_settings(environ | {"LIGHTBOX_TLS_CERT": "/tls"})
    lines = listening(settings, Transports(), [], [Port("LIGHTBOX_KSERVE_GRPC_PORT", 8081, "gRPC")])
    assert lines[:2] == ["port 8080 on all interfaces: HTTPS for callers", "port 8081 on all interfaces: gRPC over TLS"]
