"""The load generator for HTTP: one thread, one epoll, any number of connections, answers counted and dropped."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmark.clients.base import Load, Sample
from benchmark.clients.connection import Broken, Connection, http_request
from benchmark.servers.address import Address
from lightbox.client.invoke import read_server_timing

MOST_CONNECTIONS = 512
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class HttpClient:
    """POSTs one body to one path."""

    body: bytes = field(repr=False)
    content_type: str
    path: str = "/invocations"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    def open(self, address: Address) -> HttpSession:
        """Return a session that posts the body to an address."""
        headers = {"Content-Type": self.content_type, **self.headers}
        return HttpSession(address, http_request(f"{address.host}:{address.port}", self.path, headers, self.body))


class HttpSession:
    """Runs loads of one request. Connections are made before the clock starts."""

    def __init__(self, address: Address, request: bytes) -> None:
        self._address = (address.host, address.port)
        self._request = request

    def run(self, load: Load) -> Sample:
        """Put a load on the endpoint, and measure it."""
        if load.waves:
            return self._waves(load)
        run = _Run(self._address, self._request, load)
        try:
            return run.open_loop() if load.rate else run.closed_loop()
        finally:
            run.close()

    def _waves(self, load: Load) -> Sample:
        """All clients at once, again and again; the latency of a wave is that of its last answer."""
        total = Sample()
        wave = Load(requests=load.clients, clients=load.clients, most_seconds=load.most_seconds)
        for _ in range(max(1, load.requests // load.clients)):
            part = self.run(wave)
            total.latencies.append(part.seconds)
            total.seconds += part.seconds
            total.answers += part.answers
            total.errors += part.errors
            total.first_error = total.first_error or part.first_error
            total.bytes_sent += part.bytes_sent
            total.bytes_received += part.bytes_received
            total.cpu_seconds += part.cpu_seconds
            for name, values in part.stages.items():
                total.stages.setdefault(name, []).extend(values)
        return total

    def close(self) -> None:
        """Nothing stays open between runs."""


class _Run:
    def __init__(self, address: tuple[str, int], request: bytes, load: Load) -> None:
        self._address = address
        self._request = request
        self._load = load
        self._selector = selectors.DefaultSelector()
        self._sample = Sample()
        self._connections = [self._connect() for _ in range(load.clients)]
        self._idle = deque(self._connections)
        self._begun = 0
        self._cpu = time.process_time()
        self._started = time.perf_counter()

    def closed_loop(self) -> Sample:
        """Each client sends its next request when the last is answered."""
        load = self._load
        while True:
            now = time.perf_counter()
            while self._idle and self._begun < load.requests and not load.is_over(now - self._started, self._begun):
                self._begin(now)
                now = time.perf_counter()
            if len(self._idle) == len(self._connections):
                return self._finish()
            self._turn(ANSWER_SECONDS)

    def open_loop(self) -> Sample:
        """Requests start on time, over a connection that is free or a new one; none free: they start late."""
        assert self._load.rate is not None
        period = 1 / self._load.rate
        while True:
            now = time.perf_counter()
            due = self._started + self._begun * period
            while self._begun < self._load.requests and due <= now and self._free():
                self._begin(due)
                due = self._started + self._begun * period
                now = time.perf_counter()
            left = self._load.requests - self._begun
            if not left and len(self._idle) == len(self._connections):
                return self._finish()
            # Epoll rounds to milliseconds: wake a little early and look again rather than start late.
            self._turn(max(0.0, due - now - 0.001) if left and self._free() else ANSWER_SECONDS)

    def _free(self) -> bool:
        if not self._idle and len(self._connections) < MOST_CONNECTIONS:
            fresh = self._connect()
            self._connections.append(fresh)
            self._idle.append(fresh)
        return bool(self._idle)

    def _connect(self) -> Connection:
        connection = Connection(self._address)
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        return connection

    def _begin(self, started: float) -> None:
        connection = self._idle.popleft()
        self._begun += 1
        connection.begin(self._request, started)
        if connection.wants_to_write:
            self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    def _turn(self, patience: float) -> None:
        ready = self._selector.select(patience)
        if not ready and patience >= ANSWER_SECONDS:
            raise TimeoutError(f"no answer for {ANSWER_SECONDS:g} s")
        for key, events in ready:
            self._carry(key.data, events)

    def _carry(self, connection: Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                connection.on_writable()
                if not connection.wants_to_write:
                    self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
            if events & selectors.EVENT_READ and connection.on_readable():
                self._answered(connection)
        except (OSError, Broken) as error:
            self._replace(connection, f"{type(error).__name__}: {error}")

    def _answered(self, connection: Connection) -> None:
        if connection.status == 200:
            self._sample.latencies.append(time.perf_counter() - connection.started)
            self._sample.answers += 1
            self._sample.add_stages(read_server_timing(connection.headers.get("server-timing", "")))
        else:
            if connection.status == 503:
                self._sample.refused.append(time.perf_counter() - connection.started)
            self._sample.fail(f"HTTP {connection.status}: {connection.error_body.decode(errors='replace')}")
        if connection.headers.get("connection", "").lower() == "close":
            self._drop(connection)
            connection = self._connect()
            self._connections.append(connection)
        self._idle.append(connection)

    def _replace(self, connection: Connection, reason: str) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
        else:
            self._sample.fail(reason)
        self._drop(connection)
        fresh = self._connect()
        self._connections.append(fresh)
        self._idle.append(fresh)

    def _drop(self, connection: Connection) -> None:
        self._sample.bytes_sent += connection.sent
        self._sample.bytes_received += connection.received
        self._connections.remove(connection)
        self._selector.unregister(connection.socket)
        connection.close()

    def _finish(self) -> Sample:
        sample = self._sample
        sample.seconds = time.perf_counter() - self._started
        sample.cpu_seconds = time.process_time() - self._cpu
        sample.bytes_sent += sum(connection.sent for connection in self._connections)
        sample.bytes_received += sum(connection.received for connection in self._connections)
        return sample

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()
        self._selector.close()
