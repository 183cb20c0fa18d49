"""Several model servers behind one transport: it skips those that are away or have not loaded the version yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightbox.base.errors import ModelFailed, ModelNotFound, ModelServerUnreachable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers, ModelServerAddress
from lightbox.model.spec import Array, ModelCall
from lightbox.transports.balanced import BalancedTransport
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, mean_model
from support.patience import PATIENCE

OLD, NEW = mean_model(version=1), mean_model(version=2)
INPUTS: dict[str, Array] = {"image": np.zeros((1, 4, 4, 3), np.uint8)}


class Away(FakeTransport):
    """A server that cannot be reached."""

    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        """See Transport.predict."""
        self.calls.append(call)
        raise ModelServerUnreachable("away")


def server(*versions: int) -> FakeTransport:
    fake = FakeTransport()
    for version in versions:
        fake.serve(mean_model(version=version), channel_means)
    return fake


def balanced_over(*servers: FakeTransport, folder: Path = Path("/nowhere")) -> BalancedTransport:
    """Return a transport to these servers, whose sockets are in a folder."""
    addresses = [ModelServerAddress(grpc_socket=folder / f"{number}.sock") for number in range(len(servers))]
    return BalancedTransport(servers, AnsweringServers(addresses))


def predict(balanced: BalancedTransport, version: int = 2) -> dict[str, Array]:
    return balanced.predict(ModelCall(mean_model(version=version), INPUTS), RequestContext(PATIENCE))


def test_requests_go_round() -> None:
    servers = [server(2), server(2)]
    balanced = balanced_over(*servers)
    for _ in range(4):
        predict(balanced)
    assert [len(fake.calls) for fake in servers] == [2, 2]


def test_a_server_that_does_not_answer_is_left_out_until_it_does(tmp_path: Path) -> None:
    servers = [server(2), server(2)]
    balanced = balanced_over(*servers, folder=tmp_path)
    mark = ModelServerAddress(grpc_socket=tmp_path / "0.sock").silent_mark
    mark.touch()
    for _ in range(4):
        predict(balanced)
    assert [len(fake.calls) for fake in servers] == [0, 4]
    ModelServerAddress(grpc_socket=tmp_path / "1.sock").silent_mark.touch()
    with pytest.raises(ModelServerUnreachable, match="no model server answers; try again"):
        predict(balanced)
    mark.unlink()
    predict(balanced)
    assert [len(fake.calls) for fake in servers] == [1, 4]


def test_a_version_that_one_server_does_not_have_yet() -> None:
    balanced = balanced_over(server(1), server(1, 2))
    for _ in range(2):
        assert predict(balanced)["mean"].shape == (1, 3)
    for _ in range(2):
        assert balanced.signature("mean", 2, "serving_default", RequestContext(PATIENCE)) == NEW


def test_a_version_that_none_has() -> None:
    servers = [server(1), server(1)]
    with pytest.raises(ModelNotFound):
        predict(balanced_over(*servers))
    assert [len(fake.calls) for fake in servers] == [1, 1]


@pytest.mark.parametrize("away_first", [True, False])
def test_a_server_that_is_away_beside_one_without_the_version(away_first: bool) -> None:
    servers = [Away(), server(1)] if away_first else [server(1), Away()]
    with pytest.raises(ModelNotFound):
        predict(balanced_over(*servers))
    assert [len(fake.calls) for fake in servers] == [1, 1]


def test_what_has_run_is_not_repeated() -> None:
    def fail(inputs: object) -> dict[str, Array]:
        raise ModelFailed("it failed")

    failing, other = FakeTransport(), server(1)
    failing.serve(OLD, fail)
    with pytest.raises(ModelFailed):
        predict(balanced_over(failing, other), version=1)
    assert not other.calls
