"""The load: one request again and again over connections that stay open, each client in a thread of its own."""

from __future__ import annotations

import http.client
import json
import threading
import time
from statistics import median

LEAST_CALLS = 3
"""Calls whose median is taken, where one takes longer than the time that is given."""
HEADERS = {"Content-Type": "application/x-image"}


class LoadFailed(Exception):
    """A request was not answered as it should be; the message says how, in one sentence."""


class Client:
    """One caller with one connection."""

    def __init__(self, port: int, body: bytes, timeout: float) -> None:
        """``timeout`` is how many seconds an answer may take."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._body = body
        self._timeout = timeout

    def call(self) -> float:
        """Post the body, read the answer and return the seconds that it took; raise LoadFailed."""
        began = time.perf_counter()
        try:
            self._connection.request("POST", "/invocations", self._body, HEADERS)
            answer = self._connection.getresponse()
            content = answer.read()
        except TimeoutError:
            raise LoadFailed(f"a request took more than {self._timeout:.1f} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise LoadFailed(f"a request failed: {error or type(error).__name__}") from None
        if answer.status != http.HTTPStatus.OK:
            raise LoadFailed(f"a request was answered with {answer.status}: {_reason(content)}")
        return time.perf_counter() - began

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Load:
    """Some clients of one stack, which ask together or one alone."""

    def __init__(self, port: int, body: bytes, clients: int, timeout: float) -> None:
        """``timeout`` is how many seconds an answer may take."""
        self._clients = [Client(port, body, timeout) for _ in range(clients)]

    def latency(self, seconds: float) -> float:
        """Let one client ask for so long; return the median of a request in seconds. Raises LoadFailed."""
        end = time.perf_counter() + seconds
        times: list[float] = []
        while len(times) < LEAST_CALLS or time.perf_counter() < end:
            times.append(self._clients[0].call())
        return median(times)

    def throughput(self, seconds: float) -> float:
        """Let all clients ask for so long; return answers per second up to the last one. Raises LoadFailed."""
        ends: list[float] = []
        failures: list[LoadFailed] = []
        began = time.perf_counter()
        arguments = (began + seconds, ends, failures)
        threads = [threading.Thread(target=_keep_asking, args=(c, *arguments), daemon=True) for c in self._clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return len(ends) / (max(ends) - began)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()


def _keep_asking(client: Client, end: float, ends: list[float], failures: list[LoadFailed]) -> None:
    """Ask until ``end``, at least once, and note when each answer came."""
    now = 0.0
    try:
        while now < end:
            client.call()
            now = time.perf_counter()
            ends.append(now)
    except LoadFailed as error:
        failures.append(error)


def _reason(content: bytes) -> str:
    """Return the sentence of an error body."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, TypeError, KeyError):
        return content[:200].decode(errors="replace")
