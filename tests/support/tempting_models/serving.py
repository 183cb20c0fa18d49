"""A model server with all tempting models, and its answers to their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import grpc

from support.model_server import ModelServer
from support.predicting import predict
from support.tempting_models import MODELS, Answer, config, difference

LOAD_SECONDS = 3000.0
"""Engines are compared in processes of their own, one for each model."""

Answers = Mapping[tuple[str, int], Answer]
"""By signature and number of the call."""


class Served:
    """Calls a server; the calls of a model run in sequence, because some keep state."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._answers: dict[str, Answers] = {}

    def answers(self, model: str) -> Answers:
        """Return the results of all calls of a model, which run once."""
        if model not in self._answers:
            self._answers[model] = self.asked(model)
        return self._answers[model]

    def asked(self, model: str) -> Answers:
        """Make all calls of a model, again if necessary."""
        return {
            (case.name, index): predict(self._channel, model, case.name, case.feeds(index))
            for case in MODELS[model].cases
            for index in range(len(case.calls))
        }


@contextmanager
def serving(models: Path, folder: Path, *flags: str) -> Iterator[Served]:
    """Run a server with all models; its files are in ``folder``."""
    (folder / "models.config").write_text(config(models))
    with ModelServer(folder, f"--model_config_file={folder / 'models.config'}", *flags) as server:
        server.wait_ready(LOAD_SECONDS)
        with grpc.insecure_channel(server.grpc_address) as channel:
            yield Served(channel)


def differences(model: str, wanted: Answers, got: Answers) -> dict[str, str]:
    """Return the differences by "model.signature call"."""
    cases = {case.name: case for case in MODELS[model].cases}
    found = {
        f"{model}.{name} {index}": difference(cases[name], answer, got[name, index])
        for (name, index), answer in wanted.items()
    }
    return {call: why for call, why in found.items() if why is not None}
