"""Allocate ports for servers."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from lightbox.tools.harness import ports
from lightbox.tools.harness.ports import PORTS, PORTS_EACH, free_ports
from support import commands


def test_ports_are_neighbours_below_those_of_outgoing_connections() -> None:
    low = free_ports(10)
    assert low in PORTS
    for port in range(low, low + 10):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("0.0.0.0", port))


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Iterator[ports.Part]:
    """Claim one part for the test as the only part of this process, and release all claimed parts at the end."""
    claimed: list[ports.Part] = []
    monkeypatch.setattr(ports, "_parts", claimed)
    free_ports()
    (part,) = claimed
    part._next = part.ports.start
    yield part
    for each in claimed:
        each._claim.close()


def test_ports_that_somebody_listens_on_are_passed_over(part: ports.Part) -> None:
    low = free_ports(4)
    part._next = low
    with socket.socket() as server:
        # A server may have used this port until just now: its closed connections hold the port for a minute.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", low + 1))
        server.listen()
        assert free_ports(2) == low + 2


def test_a_process_gets_no_port_of_another(part: ports.Part) -> None:
    program = (
        "import random; from lightbox.tools.harness import ports\n"
        f"random.shuffle = lambda starts: starts.sort(key=lambda start: start != {part.ports.start})\n"
        "print(ports.free_ports())"
    )
    printed = commands.output([sys.executable, "-c", program])
    assert int(printed) in PORTS
    assert int(printed) not in part.ports


def test_more_processes_than_parts_are_reported(part: ports.Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PORTS", part.ports)
    monkeypatch.setattr(ports, "port_is_free", lambda _: False)
    with pytest.raises(OSError, match=r"no free ports: all of .* are claimed by processes of this machine"):
        free_ports()


@pytest.mark.parametrize("count", [0, PORTS_EACH])
def test_a_count_that_no_part_has_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"count is {count}, expected 1 to 999"):
        free_ports(count)
