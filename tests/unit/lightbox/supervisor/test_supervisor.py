"""A stop divides LIGHTBOX_DRAIN_SECONDS among the children; tests/e2e/test_stops.py runs complete stops."""

from __future__ import annotations

import asyncio
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
    supervisor._added.children = []
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
