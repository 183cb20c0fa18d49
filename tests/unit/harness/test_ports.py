"""Ports for servers that are about to start."""

from __future__ import annotations

import socket

import pytest

from harness.ports import PORTS, free_ports


def test_ports_are_neighbours_below_those_of_outgoing_connections() -> None:
    low = free_ports(10)
    assert low in PORTS
    for port in range(low, low + 10):
        with socket.socket() as server:
            server.bind(("0.0.0.0", port))


def test_ports_that_somebody_listens_on_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    low = free_ports(4)
    choices = iter([low, low + 2])
    monkeypatch.setattr("random.choice", lambda _: next(choices))
    with socket.socket() as server:
        server.bind(("0.0.0.0", low + 1))
        server.listen()
        assert free_ports(2) == low + 2
