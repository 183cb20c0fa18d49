"""Allocate ports for servers."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lightbox.harness import ports
from lightbox.harness.ports import PORTS, PORTS_EACH, free_ports


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


def test_ports_come_in_turn_and_from_the_first_again_after_the_last(
    part: ports.Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "port_is_free", lambda _: True)
    first = part.ports.start
    assert [free_ports(PORTS_EACH - 3) - first, free_ports() - first] == [0, PORTS_EACH - 3]
    assert [free_ports(2) - first, free_ports(2) - first, free_ports() - first] == [PORTS_EACH - 2, 0, 2]


def test_ports_that_somebody_listens_on_are_passed_over(part: ports.Part) -> None:
    low = free_ports(4)
    part._next = low
    with socket.socket() as server:
        # A server may have used this port until just now: its closed connections hold the port for a minute.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", low + 1))
        server.listen()
        assert free_ports(2) == low + 2


def test_a_process_with_many_servers_claims_more(part: ports.Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_is_free", lambda port: port not in part.ports)
    low = free_ports(100)
    assert low not in part.ports
    assert free_ports(100) == low + 100
    assert len(ports._parts) == 2


def test_threads_get_different_ports(part: ports.Part, monkeypatch: pytest.MonkeyPatch) -> None:
    def free(_: int) -> bool:
        time.sleep(0.0001)  # lets another thread run
        return True

    monkeypatch.setattr(ports, "port_is_free", free)
    with ThreadPoolExecutor(8) as threads:
        lows = list(threads.map(free_ports, [10] * 80))
    assert len(set(lows)) == len(lows)
    assert {low in part.ports for low in lows} == {True}


def test_a_process_gets_no_port_of_another(part: ports.Part) -> None:
    program = (
        "import random; from lightbox.harness import ports\n"
        f"random.shuffle = lambda starts: starts.sort(key=lambda start: start != {part.ports.start})\n"
        "print(ports.free_ports())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) in PORTS
    assert int(done.stdout) not in part.ports


def test_more_processes_than_parts_are_reported(part: ports.Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PORTS", part.ports)
    monkeypatch.setattr(ports, "port_is_free", lambda _: False)
    with pytest.raises(OSError, match=r"no free ports: all of .* are claimed by processes of this machine"):
        free_ports()


@pytest.mark.parametrize("count", [0, PORTS_EACH + 1])
def test_a_count_that_no_part_has_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"count is {count}, expected 1 to 1000"):
        free_ports(count)
