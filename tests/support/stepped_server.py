"""The embedded server as with ``--as_tensorflow_serving``, but without its clock.

It continues while its caller waits and has seen all of its states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.server.calls import Calls
from lightbox.model_runtime.server.core import ServerCore
from lightbox.model_runtime.server.grpc import grpc_server
from lightbox.model_runtime.server.grpc.grpc_services import Services
from lightbox.model_runtime.server.manager import LoadPolicy, Manager
from lightbox.model_runtime.server.monitoring import Metrics
from lightbox.model_runtime.server.servable import Servable, State
from lightbox.model_runtime.server.servable_loader import Loader
from real_server.timelines import Replay
from support.patience import poll


class Turns:
    """Decides when the server continues. (The real one continues after 0.1 s, regardless of its caller.)"""

    def __init__(self) -> None:
        self.looks = 0
        """How many looks at the states have begun; each is written down before the next one."""
        self.ended = False
        self._waits: list[Callable[[], bool]] = []

    @contextmanager
    def waiting(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Let the server continue until ``is_over``."""
        self._waits.append(is_over)
        try:
            yield
        finally:
            self._waits.remove(is_over)

    def take(self) -> None:
        """Wait until the caller has seen the current states and waits for others."""
        wanted = self.looks + 2
        self.wait_for(lambda: self.looks >= wanted)
        self.wait_for(lambda: any(not is_over() for is_over in list(self._waits)))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, or the end."""
        assert any(self.ended or condition() for _ in poll(pause=0.002))


@dataclass(frozen=True)
class _Loader(Loader):
    turns: Turns = field(default_factory=Turns)

    def load(self, servable: Servable) -> Runner:
        self.turns.take()
        return super().load(servable)


class _Manager(Manager):
    def __init__(self, loader: Loader, turns: Turns) -> None:
        self.turns = turns
        self.poll: Callable[[], object] = lambda: None
        super().__init__(loader, LoadPolicy(max_retries=0))

    def _run(self) -> None:
        while not self.turns.ended:
            self.turns.wait_for(self._is_at_rest)
            self.turns.take()
            if not self._step():
                self.poll()

    def _is_at_rest(self) -> bool:
        with self.changed:
            states = {servable.state for versions in self._models.values() for servable in versions.values()}
        return not states & {State.LOADING, State.UNLOADING}


class _Core(ServerCore):
    def __init__(self, manager: Manager, turns: Turns) -> None:
        super().__init__(manager, as_tensorflow_serving=True)
        self._turns = turns

    def _wait(self, names: list[str], since: int, end: float | None) -> None:
        def is_over() -> bool:
            settled = (name in self._without_versions or self.manager.first_settled(name, since) for name in names)
            return all(settled)

        with self._turns.waiting(is_over):
            super()._wait(names, since, end)


class SteppedReplay(Replay):
    """A replay of a timeline against ``stepped_server``."""

    def __init__(self, channel: grpc.Channel, timeline: dict[str, Any], folders: Path, turns: Turns) -> None:
        super().__init__(channel, timeline, folders, "")
        self._turns = turns

    def _state(self) -> str:
        self._turns.looks += 1
        return super()._state()

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        with self._turns.waiting(condition):
            super()._wait_until(condition)


@contextmanager
def stepped_server(folder: Path) -> Iterator[tuple[grpc.Channel, Turns]]:
    """Run a server without models in this process; yield a channel to it."""
    turns = Turns()
    loader = _Loader(Opener("tensorflow", ("serve",), b"", Hardware(1, 1)).open, Metrics(), turns=turns)
    manager = _Manager(loader, turns)
    core = _Core(manager, turns)
    manager.poll = core.poll
    server = grpc_server.create([Services(Calls(core, Metrics()))], 4, [])
    grpc_server.bind(server, "", 0, f"{folder}/socket", None)
    server.start()
    try:
        with grpc.insecure_channel(f"unix:{folder}/socket") as channel:
            yield channel, turns
    finally:
        turns.ended = True
        server.stop(None).wait()
        manager.stop()
