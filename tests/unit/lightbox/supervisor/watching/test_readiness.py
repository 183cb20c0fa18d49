"""/ping returns 200 after the model has answered a probe or a request, and 503 while its server is down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lightbox.base.plain_http import get
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.logs import FinishedRequest, LastResponse
from lightbox.core.additions import Probe
from lightbox.supervisor.watching import readiness as health
from lightbox.supervisor.watching.readiness import Health
from lightbox.transports.model_status import ModelStatus
from support.health import health_server
from support.model_service import Reload, ScriptedServer, serving
from support.patience import PATIENCE

PROBES: dict[str, Probe] = {
    "/up": lambda ready: {"up": True},
    "/able": lambda ready: {"up": True, "able": ready},
}


@pytest.fixture(autouse=True)
def last_words_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent a pause of this process from marking a model server as down."""
    monkeypatch.setattr(health, "STALE_SECONDS", PATIENCE)


class Worker:
    """A worker that answers every request with its current status as soon as it is free."""

    def __init__(self) -> None:
        self.status = 503
        self.asked = 0
        self.free = asyncio.Event()
        self.free.set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        await self.free.wait()
        body = json.dumps({"error": "no answer"}).encode()
        writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


class Scene:
    """A Health with a real gRPC model server and a worker, and the /ping that clients see."""

    def __init__(self, folder: Path) -> None:
        self.server, self.worker = ScriptedServer(Reload("", [{}])), Worker()
        self.answers = LastResponse(folder)
        self._folder = folder

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[Scene]:
        sidecar, self.ping = f"unix:{self._folder}/sidecar", f"unix:{self._folder}/health"
        with serving(self.server, self._folder / "server") as target:
            status = ModelStatus(target)
            self.health = Health("net", [status], sidecar, self._folder)
            async with (
                await asyncio.start_unix_server(self.worker.answer, f"{self._folder}/sidecar"),
                await health_server(self._folder, self.health, probes=PROBES).serve(self.ping),
            ):
                following = asyncio.create_task(self.health.follow())
                yield self
                following.cancel()
                self.worker.free.set()
                await status.close()

    async def pinged(self, status: int) -> bool:
        return (await get(self.ping, "/ping"))[0] == status

    async def until_pinged(self, status: int) -> None:
        await until(lambda: self.pinged(status))

    async def stays_away(self, asked: Callable[[], int], times: int = 3) -> None:
        """Wait until the counter ``asked`` has grown by ``times``; /ping must return 503 all the time."""
        wanted = asked() + times

        async def enough() -> bool:
            assert await self.pinged(503)
            return asked() >= wanted

        await until(enough)

    def probes(self) -> int:
        return self.worker.asked

    def answer_somebody(self) -> None:
        """Record an answered request, as a worker does."""
        context = RequestContext(PATIENCE)
        context.model = "net"
        self.answers.responded(FinishedRequest("id", "POST", "/invocations", "/invocations", 200, 1, 1, None, context))

    async def lose_server(self) -> None:
        self.server.say(None)
        await self.until_pinged(503)


async def until(ask: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await ask():
            await asyncio.sleep(0.01)


def play(folder: Path, story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def play_it() -> None:
        async with Scene(folder).playing() as scene:
            await story(scene)

    asyncio.run(play_it())


def test_probes_are_answered_whatever_the_model_does(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async def asked(path: str) -> tuple[int, dict[str, Any]]:
            status, body = await get(scene.ping, path)
            return status, json.loads(body)

        assert await asked("/up?now") == (200, {"up": True})
        before = scene.health.problem()
        status, reply = await asked("/able")
        assert (status, reply["up"], reply["able"]) == (503, True, False)
        assert reply["error"] in {f"not ready: {problem}" for problem in (before, scene.health.problem())}
        scene.worker.status = 200
        scene.server.say({1: "AVAILABLE"})
        await scene.until_pinged(200)
        assert await asked("/able") == (200, {"up": True, "able": True})

    play(tmp_path, story)


def test_ready_means_that_the_model_has_answered(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.server.say({1: "LOADING"})
        await scene.stays_away(lambda: scene.server.asked)
        assert scene.worker.asked == 0, "no probe before the model is loaded"
        scene.server.say({1: "AVAILABLE"})
        await scene.stays_away(scene.probes)  # the model is loaded, and the probe fails
        scene.worker.status = 200
        await scene.until_pinged(200)
        scene.server.say({1: "END"})
        await scene.until_pinged(503)
        probes = scene.probes()
        scene.server.say({1: "AVAILABLE"})
        await scene.until_pinged(200)
        assert scene.probes() > probes, "a model server that is back is tried before it is trusted"
        scene.worker.status = 503
        scene.health.sidecar.ended()
        await scene.stays_away(scene.probes)
        scene.worker.status = 200
        await scene.until_pinged(200)
        scene.health.draining = True
        assert await scene.pinged(503)

    play(tmp_path, story)


def test_what_a_caller_got_counts_while_the_probe_waits_behind_others(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.worker.free.clear()
        for _ in range(2):
            await scene.lose_server()
            probes = scene.probes()
            scene.server.say({1: "AVAILABLE"})

            async def probed(before: int = probes) -> bool:
                return scene.probes() > before

            await until(probed)
            assert await scene.pinged(503)
            scene.answer_somebody()
            await scene.until_pinged(200)

    play(tmp_path, story)


def test_an_answer_of_the_server_that_is_gone_proves_nothing(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.lose_server()
        scene.answer_somebody()
        scene.server.say({1: "AVAILABLE"})
        await scene.stays_away(scene.probes)

    play(tmp_path, story)


def test_an_answer_of_workers_whose_gunicorn_is_gone_proves_nothing(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        scene.server.say({1: "AVAILABLE"})
        scene.worker.status = 200
        await scene.until_pinged(200)
        scene.worker.status = 503
        scene.health.sidecar.ended()
        for _ in range(2):
            await scene.stays_away(scene.probes)
            scene.answer_somebody()
            await scene.stays_away(scene.probes)
            await scene.lose_server()
            scene.server.say({1: "AVAILABLE"})
        scene.worker.status = 200
        await scene.until_pinged(200)
        await scene.lose_server()
        scene.worker.status = 503
        scene.server.say({1: "AVAILABLE"})
        await scene.stays_away(scene.probes)
        scene.answer_somebody()
        await scene.until_pinged(200)

    play(tmp_path, story)
