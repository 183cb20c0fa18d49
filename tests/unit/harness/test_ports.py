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


def test_ports_come_in_turn_and_from_the_first_again_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.ports.port_is_free", lambda _: True)
    monkeypatch.setattr("harness.ports._turn", {})
    first = own_ports().start
    assert [free_ports(PORTS_EACH - 3) - first, free_ports() - first] == [0, PORTS_EACH - 3]
    assert [free_ports(2) - first, free_ports(2) - first, free_ports() - first] == [PORTS_EACH - 2, 0, 2]


def test_ports_that_somebody_listens_on_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    low = free_ports(4)
    monkeypatch.setattr("harness.ports._turn", {"next": low})
    with socket.socket() as server:
        server.bind(("0.0.0.0", low + 1))
        server.listen()
        assert free_ports(2) == low + 2


def test_a_process_gets_no_port_of_another() -> None:
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
