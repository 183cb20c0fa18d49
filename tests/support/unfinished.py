"""What a process takes whose callers begin messages and finish none: ``python -m support.unfinished CALLS BYTES``.

Prints JSON. It is a process of its own, in the environment of the real one: glibc's heaps, one for each thread unless
it is told otherwise, would count as memory that messages take.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.memory import PeakGrowth
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, mean_model
from support.grpc_front import BOUNDS, MAX_BYTES, RED, Caller, Watcher, floats, images, make_pipeline, serving
from support.http2_client import RawClient, message
from support.patience import PATIENCE, poll

MESSAGE = message(MAX_BYTES)


def main(calls: int, together: int) -> None:
    """Begin ``calls`` messages on each of two connections, where all may hold ``together`` bytes; tell what came."""
    fake, watcher = FakeTransport(), Watcher()
    fake.serve(mean_model(), channel_means)
    with (
        TemporaryDirectory() as folder,
        serving(
            make_pipeline(fake, ["mean"]), f"unix:{folder}/s", [watcher], bounds=replace(BOUNDS, together=together)
        ) as call,
    ):
        print(json.dumps(_told(Path(folder, "s"), calls, call, watcher)))


def _told(address: Path, calls: int, call: Caller, watcher: Watcher) -> dict[str, object]:
    with closing(RawClient(str(address))) as one, closing(RawClient(str(address))) as other:
        clients = [one, other]
        growth = PeakGrowth()
        sent = _fill(clients, calls)
        told = {
            "sent": sent / (2 * calls * len(MESSAGE)),
            "held": call.gate.held,
            "growth": growth.bytes(),
            "beside": floats(call("ModelInfer", images(RED))),
        }
    return told | {
        "after": floats(call("ModelInfer", images(RED))),
        "refused": watcher.requests.get(timeout=PATIENCE).error_code,
    }


def _fill(clients: list[RawClient], calls: int) -> int:
    """Send all but the last byte of ``calls`` messages over each connection, side by side; return the bytes sent."""
    most = len(MESSAGE) - 1
    left = [(client, number) for client in clients for number in range(1, 2 * calls, 2)]
    for client, number in left:
        client.open(number)
    total = 0
    for _ in poll(pause=0):
        total += sum(client.push(number, MESSAGE, most) for client, number in left)
        for client in clients:
            client.hear(0.05)
        left = [
            (client, number) for client, number in left if number not in client.ended and client.sent[number] < most
        ]
        if not left:
            return total
    raise AssertionError(f"{len(left)} calls have neither sent all nor ended")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
