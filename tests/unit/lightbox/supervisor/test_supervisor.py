"""A stop divides LIGHTBOX_DRAIN_SECONDS among the children, and a restart waits only after a short life.

tests/e2e/test_stops.py runs complete stops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.supervisor import ChildFailed, Supervisor


@pytest.mark.parametrize("seconds", [2, 3600])
def test_a_stop_waits_for_children_as_long_as_the_drain_allows(seconds: int) -> None:
    allowed = []

    def child(name: str) -> Any:
        async def stop(patience: float) -> None:
            allowed.append(patience)

        return SimpleNamespace(name=name, stop=stop)

    supervisor = Mock(_settings=load_settings({"LIGHTBOX_DRAIN_SECONDS": str(seconds)}))
    supervisor._code.children, supervisor._renew_behind = [], lambda: asyncio.sleep(0)
    supervisor._added.children = supervisor._listeners = []
    supervisor._children = [child(name) for name in ("nginx", "gunicorn", "model_server")]
    asyncio.run(Supervisor._stop_children(supervisor))
    assert len(allowed) == 3
    assert seconds - 1800 < max(allowed) <= seconds  # the machine may pause between two children


def test_a_check_does_not_wait_for_ever_for_an_answer() -> None:
    """The two timeouts are in the past here."""
    supervisor = Mock(_settings=Mock(load_seconds=-1.0, deadline_seconds=-1.0), _code_ready=Mock(wait=AsyncMock()))
    supervisor._health.servers, supervisor._health.sidecar.has_failed = [], False
    supervisor._health.problem.return_value = "the model server is starting"
    with pytest.raises(ChildFailed, match=r"^not ready: the model server is starting$"):
        asyncio.run(Supervisor._until_answered(supervisor))


@pytest.mark.parametrize(
    ("lives", "waits"), [([0, 0, 0, 0], [0.1, 0.2, 0.4]), ([0.3, 0.3, 0.3, 0.3], [0, 0, 0.1]), ([40, 0, 0], [0, 0.2])]
)
def test_a_child_is_started_again_at_once_if_it_lived_for_longer_than_the_pause(
    lives: Sequence[float], waits: Sequence[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, now, waited = Mock(_metrics=None), [0.0], []
    left = list(lives)
    supervisor._health.fronts, supervisor._stopping.is_set = {}, lambda: not left
    supervisor._refused_to_start.return_value = False

    async def run(child: object) -> int:
        now[0] += left.pop(0)
        return 1

    async def sleep(seconds: float) -> None:
        waited.append(round(seconds, 3))
        now[0] += seconds

    supervisor._run = run
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr("lightbox.supervisor.supervisor.asyncio", SimpleNamespace(sleep=sleep))
    keeping = Supervisor._keep_running(supervisor, Mock())
    with pytest.raises(StopIteration):  # nothing in it waits for an event loop
        keeping.send(None)
    assert waited == list(waits)
