"""Measures the memory of a process with many unfinished messages: ``python -m support.unfinished CALLS BYTES``.

Prints JSON. It is a process of its own, in the environment of the real one: glibc's heaps, one for each thread unless
set otherwise, would count as memory that messages take.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lightbox.harness.memory import PeakGrowth
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, mean_model
from support.grpc_front import BOUNDS, MAX_BYTES, RED, Caller, Watcher, floats, images, infer, make_pipeline, serving
from support.h2_caller import H2Caller
from support.patience import PATIENCE, poll

MESSAGE = b"\0" + MAX_BYTES.to_bytes(4, "big") + bytes(MAX_BYTES)


def main(calls: int, together: int) -> None:
    """Begin ``calls`` messages on each of two connections, where all may hold ``together`` bytes; tell what came."""
    fake, watcher = FakeTransport(), Watcher()
    fake.serve(mean_model(), channel_means)
    bounds = replace(BOUNDS, together=together)
    with (
        TemporaryDirectory() as folder,
        serving(make_pipeline(fake, ["mean"]), Path(folder), [watcher], bounds=bounds) as call,
        H2Caller(call.port) as one,
        H2Caller(call.port) as other,
    ):
        print(json.dumps(_as_json([one, other], calls, call, watcher)))


def _as_json(clients: Sequence[H2Caller], calls: int, call: Caller, watcher: Watcher) -> dict[str, object]:
    growth = PeakGrowth()
    sent = _fill(clients, calls)
    return {
        "sent": sent / (2 * calls * len(MESSAGE)),
        "held": call.account.held,
        "growth": growth.bytes(),
        "beside": floats(call("ModelInfer", images(RED))),
        "refused": watcher.requests.get(timeout=PATIENCE).error_code,
    }


def _fill(clients: Sequence[H2Caller], calls: int) -> int:
    """Send all but the last byte of ``calls`` messages over each connection, side by side; return the bytes sent."""
    most = len(MESSAGE) - 1
    sent = {(client, client.open(infer())): 0 for client in clients for _ in range(calls)}
    left = set(sent)
    for _ in poll(pause=0):
        for client, stream in left:
            at = sent[client, stream]
            sent[client, stream] += client.push(stream, MESSAGE[at : min(most, at + (1 << 18))])
        for client in clients:
            client.hear(0.01)
        left = {(client, stream) for client, stream in left if not client[stream].ended and sent[client, stream] < most}
        if not left:
            return sum(sent.values())
    raise AssertionError(f"{len(left)} calls have neither sent all nor ended")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
