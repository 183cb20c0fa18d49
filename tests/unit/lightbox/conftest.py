"""Fixtures for all of Lightbox's unit tests."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any

import pytest

from lightbox.supervisor.supervisor import Supervisor
from support.fake_transport import FakeTransport
from support.fakes import mean_server
from support.isolation import own_environ


@pytest.fixture(autouse=True)
def same_path() -> Iterator[None]:
    """Undo the changes that loading user code makes to this process."""
    path, last, inherited = list(sys.path), next(reversed(sys.modules)), os.environ.get("PYTHONPATH")
    yield
    sys.path[:] = path
    os.environ.pop("PYTHONPATH", None)
    if inherited is not None:
        os.environ["PYTHONPATH"] = inherited
    # The newest stand last. All modules, two thousand, are not looked through after each test.
    for name in list(takewhile(lambda name: name != last, reversed(sys.modules))):
        if name.startswith("inference_"):
            del sys.modules[name]


PassOnce = Callable[[Callable[[], bool]], None]


@pytest.fixture
def pass_once(monkeypatch: pytest.MonkeyPatch) -> PassOnce:
    """Expire the timeouts of all ``asyncio.wait`` as soon as a condition holds, but not before."""
    real = asyncio.wait

    def once(condition: Callable[[], bool]) -> None:
        async def wait(tasks: Any, *, timeout: float | None = None, **options: Any) -> Any:
            if timeout is None:
                return await real(tasks, **options)
            while True:
                done, pending = await real(tasks, timeout=0.01)
                if done or condition():
                    return done, pending

        monkeypatch.setattr(asyncio, "wait", wait)

    return once


@pytest.fixture
def transport() -> FakeTransport:
    """A server of ``mean_model``."""
    return mean_server()


@pytest.fixture
def check_starts_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``check`` try the user's code alone: tests/e2e/test_refused_starts.py has the rest of what it starts."""

    async def try_code(self: Supervisor) -> None:
        self._nginx.close_listeners()
        try:
            await self._prepare_code()
        finally:
            for child in self._code.children:
                child.kill()
            await asyncio.gather(*(status.close() for status in self._statuses))

    monkeypatch.setattr(Supervisor, "try_start", try_code)


AsIfStarted = Callable[[Mapping[str, str]], None]


@pytest.fixture
def as_if_started(monkeypatch: pytest.MonkeyPatch) -> AsIfStarted:
    """Set these variables over ``own_environ`` and no other settings, as if the process had started with them."""

    def be(environ: Mapping[str, str]) -> None:
        own = own_environ()
        for name in set(os.environ) - set(own):
            monkeypatch.delenv(name)
        for name, value in (own | dict(environ)).items():
            monkeypatch.setenv(name, value)

    return be
