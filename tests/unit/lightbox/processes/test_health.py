"""When /ping says 200: not before the model has answered a probe, and not while its server is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from lightbox.plan import ModelServerAddress
from lightbox.processes.health import Health
from lightbox.processes.model_states import get
from support.stack import free_port

SECONDS = 15.0


class Listener:
    """Answers every request with the status and body that it has at that moment."""

    def __init__(self, status: int, value: object) -> None:
        self.status, self.value = status, value
        self.asked = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        body = json.dumps(self.value).encode()
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


def state(name: str) -> dict[str, object]:
    return {"model_version_status": [{"version": "1", "state": name}]}


async def until(ask: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await ask():
            await asyncio.sleep(0.01)


async def follow(folder: Path) -> None:
    port, sidecar, ping = free_port(), f"unix:{folder}/sidecar", f"unix:{folder}/health"
    model_server, worker = Listener(200, state("LOADING")), Listener(503, {"error": "no answer"})
    health = Health("net", [ModelServerAddress(grpc_port=1, rest_port=port)], sidecar)

    async def pinged(status: int) -> bool:
        return (await get(ping, "/ping"))[0] == status

    async with (
        await asyncio.start_unix_server(worker.answer, f"{folder}/sidecar"),
        await asyncio.start_server(model_server.answer, "127.0.0.1", port),
        await health.serve(ping),
        asyncio.TaskGroup() as tasks,
    ):
        following = tasks.create_task(health.follow())

        async def asked_again(listener: Listener, times: int = 3) -> None:
            wanted = listener.asked + times

            async def enough() -> bool:
                assert await pinged(503)
                return listener.asked >= wanted

            await until(enough)

        await asked_again(model_server)
        assert worker.asked == 0, "no probe before the model is loaded"
        model_server.value = state("AVAILABLE")
        await asked_again(worker)  # the model is loaded, and the probe fails
        worker.status = 200
        await until(lambda: pinged(200))
        model_server.value = state("END")
        await until(lambda: pinged(503))
        probes = worker.asked
        model_server.value = state("AVAILABLE")
        await until(lambda: pinged(200))
        assert worker.asked > probes, "a model server that is back is tried before it is trusted"
        health.sidecar_ended()
        worker.status = 503
        await asked_again(worker)
        worker.status = 200
        await until(lambda: pinged(200))
        health.draining = True
        assert await pinged(503)
        following.cancel()


def test_ready_means_that_the_model_has_answered(tmp_path: Path) -> None:
    asyncio.run(follow(tmp_path))
