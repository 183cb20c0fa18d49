"""What every client can do, and what it reports."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from benchmark.servers.address import Address


@dataclass(frozen=True)
class Load:
    """How requests are sent.

    Closed loop (``rate`` is None): ``clients`` send one request after another, ``requests`` in all; with
    ``waves`` all clients start together, and a latency is that of a wave, from its start to its last answer.
    Open loop: ``rate`` requests start each second for ``requests / rate`` seconds whatever the server does,
    and a latency counts from the moment at which its request was to start. A closed loop sends nothing after
    ``most_seconds``, unless by then it is plain that all requests take at most ``patience`` seconds.
    """

    requests: int
    clients: int = 1
    rate: float | None = None
    waves: bool = False
    most_seconds: float = 120.0
    patience: float = 0.0

    def is_over(self, elapsed: float, sent: int) -> bool:
        """Tell whether a closed loop that has sent so many requests in so many seconds sends no more."""
        return elapsed > self.most_seconds and elapsed * self.requests > self.patience * sent


@dataclass
class Sample:
    """What one run of a load gave. Times are in seconds, stages in milliseconds as Server-Timing has them.

    ``refused`` holds how long each answer 503 took; such a request counts among the errors too.
    """

    latencies: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    seconds: float = 0.0
    answers: int = 0
    errors: int = 0
    first_error: str = ""
    bytes_sent: int = 0
    bytes_received: int = 0
    stages: dict[str, list[float]] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    def add_stages(self, durations: Mapping[str, float]) -> None:
        """Note the stages of one answer."""
        for name, milliseconds in durations.items():
            self.stages.setdefault(name, []).append(milliseconds)

    def fail(self, reason: str) -> None:
        """Note an answer that is none."""
        self.errors += 1
        self.first_error = self.first_error or " ".join(reason.split())[:300]


class Session(Protocol):
    """An open client."""

    def run(self, load: Load) -> Sample:
        """Send the load and return when all of it is answered."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


class Client(Protocol):
    """What to send; small enough to travel to another process, comparable, without open connections."""

    def open(self, address: Address) -> Session:
        """Connect to a server."""
        ...


def run_one_by_one(load: Load, call: Call) -> Sample:
    """Run a closed loop of one client around a function that makes one request and notes it in the sample."""
    sample = Sample()
    cpu = time.process_time()
    started = time.perf_counter()
    for sent in range(load.requests):
        before = time.perf_counter()
        if load.is_over(before - started, sent):
            break
        try:
            call(sample)
        except Exception as error:  # whatever a client library raises is one failed request
            sample.fail(f"{type(error).__name__}: {error}")
            continue
        sample.latencies.append(time.perf_counter() - before)
        sample.answers += 1
    sample.seconds = time.perf_counter() - started
    sample.cpu_seconds = time.process_time() - cpu
    return sample


class Call(Protocol):
    """Makes one request; raises when it fails."""

    def __call__(self, sample: Sample) -> None:
        """Make the request and note stages and bytes."""
        ...
