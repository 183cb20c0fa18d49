"""A gRPC client for the echo server: the same wave of requests that the REST server gets."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from benchmark.clients.base import Load, Sample
from benchmark.servers.address import Address


@dataclass(frozen=True)
class EchoClient:
    """Calls one method with one message; ``fields`` make it."""

    method: str
    fields: tuple[tuple[str, Any], ...] = field(repr=False)

    def open(self, address: Address) -> EchoSession:
        """Return a session with the echo."""
        return EchoSession(self, address.grpc)


class EchoSession:
    """One channel; the calls of a wave are in progress together."""

    def __init__(self, spec: EchoClient, target: str) -> None:
        import grpc

        from benchmark.rivals.echo_messages import MESSAGES, SERVICE

        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(target, options=options)
        self._call = self._channel.unary_unary(
            SERVICE + spec.method,
            request_serializer=MESSAGES[spec.method].SerializeToString,
            response_deserializer=MESSAGES["Answer"].FromString,
        )
        values = {name: dict(value) if isinstance(value, tuple) else value for name, value in spec.fields}
        self._message: Any = MESSAGES[spec.method]
        self._values = values

    def run(self, load: Load) -> Sample:
        """Put a load on the echo; each request is made and serialized anew, as a caller's would be."""
        sample = Sample()
        cpu = time.process_time()
        for _ in range(max(1, load.requests // load.clients)):
            started = time.perf_counter()
            calls = [self._call.future(self._message(**self._values), timeout=60) for _ in range(load.clients)]
            received = sum(call.result().ByteSize() for call in calls)
            sample.latencies.append(time.perf_counter() - started)
            sample.seconds += sample.latencies[-1]
            sample.answers += load.clients
            sample.bytes_received += received
        sample.bytes_sent = self._message(**self._values).ByteSize() * sample.answers
        sample.cpu_seconds = time.process_time() - cpu
        return sample

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
