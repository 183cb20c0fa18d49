"""Ports for servers that are about to start."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from harness.ports import PORTS, PORTS_EACH, free_ports, own_ports


def test_ports_are_neighbours_below_those_of_outgoing_connections() -> None:
    low = free_ports(10)
    assert low in PORTS
    for port in range(low, low + 10):
        with socket.socket() as server:
            server.bind(("0.0.0.0", port))


def test_as_many_as_a_process_has_begin_with_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.ports.port_is_free", lambda _: True)
    assert free_ports(PORTS_EACH) == own_ports().start
    monkeypatch.setattr("random.choice", max)
    assert free_ports(2) == own_ports().stop - 2


def test_ports_that_somebody_listens_on_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    low = free_ports(4)
    choices = iter([low, low + 2])
    monkeypatch.setattr("random.choice", lambda _: next(choices))
    with socket.socket() as server:
        server.bind(("0.0.0.0", low + 1))
        server.listen()
        assert free_ports(2) == low + 2


def test_a_process_gets_no_port_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import random; from harness import ports\n"
        f"random.shuffle = lambda parts: parts.sort(key=lambda part: part.start != {own_ports().start})\n"
        "print(ports.own_ports().start)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) in set(PORTS[::PORTS_EACH]) - {own_ports().start}


def test_more_processes_than_parts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.ports.PORTS", own_ports())
    with pytest.raises(OSError, match="no free ports: 1 processes of this machine have all of"):
        own_ports.__wrapped__()
