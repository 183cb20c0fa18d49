"""Refuse inputs by rank before a request is sent, and complete the model server's own error messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightbox.base.errors import BadRequest, InputMismatch, LightboxError, ModelFailed, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress, PlannedModels, ServingPlan
from lightbox.model.spec import Array, ModelCall
from lightbox.model_files.saved_model import WORST, Traits
from lightbox.transports.fake import FakeTransport
from lightbox.transports.signature_cache import RankGuard, Signatures, traits_by
from support.fakes import signature

NET = signature("net", {"x": ("float32", (None, 2))}, {"y": ("float32", (None, 2))})
OTHER = signature("net", {"x": ("float32", (None, 2))}, {"y": ("float32", (None, 2))}, version=2)


def guard(transport: FakeTransport | None = None) -> RankGuard:
    """Return a guard for a model; calls to version 1 can crash the model server."""
    return RankGuard(
        Signatures(), transport or FakeTransport(), lambda model, version: Traits(4 if version == 1 else 0, False)
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_too_low_a_rank_is_refused_where_it_may_end_the_model_server(rank: int) -> None:
    said = rf"input x: expected shape \[-1,2\], got one of rank {rank}"
    with pytest.raises(InputMismatch, match=said):
        guard().check_ranks(NET, {"x": rank})
    with pytest.raises(InputMismatch, match=said):
        guard().check(NET, {"x": np.zeros((2,) * rank, "f4")})
    guard().check_ranks(OTHER, {"x": rank})


def test_an_input_without_a_declared_rank_needs_that_of_the_operations() -> None:
    found = signature("net", {"x": ("float32", None)}, {"y": ("float32", None)})
    with pytest.raises(InputMismatch, match="input x: expected a rank of at least 4, got 3"):
        guard().check_ranks(found, {"x": 3})
    guard().check_ranks(found, {"x": 4})
    guard().check_ranks(replace(found, version=2), {"x": 0})


@pytest.mark.parametrize("rank", [2, 3, 6])
def test_for_other_ranks_the_graph_is_not_even_looked_at(rank: int) -> None:
    def never(model: str, version: int) -> Traits:
        raise AssertionError

    RankGuard(Signatures(), FakeTransport(), never).check_ranks(NET, {"x": rank})


def test_a_model_that_is_not_listed_may_end() -> None:
    model = PlannedModel(name="net", base_path=Path("/nowhere"), options=ModelOptions())
    servers = (ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1),)
    plan = ServingPlan(models={"net": model}, default_model="net", model_servers=servers)
    find = traits_by(PlannedModels(plan))
    assert find("net", 1) == find("another", 1) == WORST


@pytest.mark.parametrize("error", [BadRequest("too odd"), ModelFailed("too odd")])
def test_the_model_servers_reason_follows_what_was_expected(error: LightboxError) -> None:
    def fail(_: Mapping[str, Array]) -> dict[str, Array]:
        raise error

    transport = FakeTransport()
    transport.serve(NET, fail)
    odd, fits = (ModelCall(NET, {"x": np.zeros(shape, "f4")}) for shape in ((1, 3), (1, 2)))
    with pytest.raises(InputMismatch, match=r"input x: expected shape \[-1,2\], got \[1,3\]: too odd"):
        guard().predict(transport, odd, RequestContext(10))
    with pytest.raises(type(error), match=r"^too odd"):
        guard().predict(transport, fits, RequestContext(10))


def test_what_is_known_of_a_model() -> None:
    transport, context = FakeTransport(), RequestContext(10)
    transport.serve(NET, dict)
    found = guard(transport)
    assert found.known("net", None, "", context) == NET
    assert found.known("net", 7, "", context) is None
    assert found.known("net", None, "none", context) is None
    assert found.may_end("net", 1, context)
    assert not found.may_end("none", None, context)
    transport.serve(OTHER, dict)
    assert not found.may_end("net", 2, context)


def test_nothing_is_sent_on_to_a_model_server_that_cannot_be_asked() -> None:
    class Away(FakeTransport):
        def signature(self, *_: object) -> object:  # type: ignore[override]
            raise Unavailable("away")

    with pytest.raises(Unavailable):
        guard(Away()).known("net", None, "", RequestContext(10))
