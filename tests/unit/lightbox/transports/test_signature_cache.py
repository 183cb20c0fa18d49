"""Which version answers a request without a version, and whether a new version may replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from lightbox.base.errors import (
    InputMismatch,
    LightboxError,
    ModelFailed,
    ModelNotFound,
    ModelUninitialized,
    Unavailable,
    UnknownSignature,
)
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import answering_versions
from lightbox.model.spec import Array, SignatureSpec
from lightbox.model_files.saved_model import Traits
from lightbox.transports.base import from_server
from lightbox.transports.model_status import ServerState, VersionStatus, will_answer
from lightbox.transports.signature_cache import OPEN_SIDES, Signatures, probe, probe_version
from support.fake_transport import FakeTransport
from support.fakes import signature
from support.parameters import each
from support.patience import PATIENCE

Function = Callable[[Mapping[str, Array]], dict[str, Array]]


def half(version: int, rank: int = 1) -> SignatureSpec:
    return signature("net", {"x": ("float32", (None,) * rank)}, {"y": ("float32", (None,) * rank)}, version)


def well(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"]}


def raising(error: LightboxError) -> Function:
    def fail(_: Mapping[str, Array]) -> dict[str, Array]:
        raise error

    return fail


def serving(*versions: tuple[SignatureSpec, Function]) -> FakeTransport:
    transport = FakeTransport()
    for served in versions:
        transport.serve(*served)
    return transport


def version_for(signatures: Signatures, transport: FakeTransport, version: int | None = None) -> int:
    return signatures.get(transport, "net", version, None, RequestContext(PATIENCE)).version


def test_the_first_version_that_the_model_server_has_answers() -> None:
    answering = [3, 2, 1]
    signatures = Signatures(lambda model: answering)
    transport = serving((half(1), well), (half(2), well), (half(4), well))
    assert version_for(signatures, transport) == 2
    assert version_for(signatures, transport, version=4) == 4
    answering[:] = [1]
    assert version_for(signatures, transport) == 1, "a remembered signature does not outlive the choice of its version"
    answering[:] = []
    assert version_for(signatures, transport) == 4
    answering[:] = [8, 9]
    with pytest.raises(ModelNotFound, match="no version 8 of net"):
        version_for(signatures, transport)


@each(
    ("version", "states", "error"),
    [
        (1, [{1: "START"}], Unavailable),
        (1, [None, {2: "AVAILABLE"}, {1: "LOADING"}], Unavailable),
        (1, [{1: "AVAILABLE"}], Unavailable),  # since a moment ago
        (1, [{1: "END", 2: "LOADING"}], ModelNotFound),
        (1, [{}, None], ModelNotFound),
        (None, [{1: "END", 2: "LOADING"}], Unavailable),
        (None, [{1: "UNLOADING"}], ModelNotFound),
    ],
)
def test_a_version_that_the_model_servers_still_load_is_not_missing(
    version: int | None, states: Sequence[Mapping[int, str] | None], error: type[LightboxError]
) -> None:
    found: list[ServerState] = [
        None if server is None else {number: VersionStatus(state) for number, state in server.items()}
        for server in states
    ]
    signatures = Signatures(is_loading=lambda model, version, context: will_answer(found, version))

    def call(text: str) -> None:
        def attempt() -> None:
            raise from_server("NOT_FOUND", text, "net", version)

        signatures.on_newest("net", version, attempt, RequestContext(PATIENCE))

    with pytest.raises(error):
        call("Servable not found for request: Latest(net)")
    with pytest.raises(ModelNotFound, match="Resource"):  # of an operation of the graph
        call("Resource localhost/table does not exist")


def test_a_version_that_goes_while_it_is_asked_is_asked_no_more() -> None:
    signatures = Signatures(lambda model: [2, 1])
    transport = serving((half(1), well), (half(2), well))
    asked = []

    def attempt() -> int:
        asked.append(version_for(signatures, transport))
        if asked == [2]:
            transport.withdraw("net", 2)
            raise ModelNotFound("version 2 is gone")
        return asked[-1]

    assert signatures.on_newest("net", None, attempt, RequestContext(PATIENCE)) == 1
    assert asked == [2, 1]


@pytest.mark.parametrize("is_old", [True, False])
def test_an_empty_shape_is_unknown_where_the_graph_is_old(is_old: bool) -> None:
    signatures = Signatures(traits=lambda model, version: Traits(least_rank=0, has_no_scalars=is_old))
    found = signatures.get(serving((half(1, rank=0), well)), "net", None, None, RequestContext(10))
    assert found.inputs["x"].shape == found.outputs["y"].shape == (None if is_old else ())


@pytest.mark.parametrize("error", [ModelFailed("the graph fails"), InputMismatch("inputs do not fit")])
def test_a_model_that_refuses_made_up_inputs_may_be_well(error: LightboxError) -> None:
    probe("net", serving((half(1), raising(error))), Signatures(), RequestContext(PATIENCE))


def test_a_model_that_no_input_can_be_given_is_not_well() -> None:
    with pytest.raises(ModelUninitialized):
        probe("net", serving((half(1), raising(ModelUninitialized("no v")))), Signatures(), RequestContext(PATIENCE))


def prove(old: Function, new: Function, spec: SignatureSpec | None = None) -> None:
    """Probe version 2 while version 1 answers."""
    transport = serving((half(1), old), (spec or half(2), new))
    probe_version("net", 2, transport, Signatures(lambda model: [1]), RequestContext(PATIENCE))


FAILED, REFUSED = ModelFailed("the graph fails"), InputMismatch("inputs do not fit")


@pytest.mark.parametrize("error", [FAILED, REFUSED, Unavailable("busy")], ids=lambda error: type(error).__name__)
def test_a_version_that_fails_at_what_the_answering_one_can_may_not(error: LightboxError) -> None:
    with pytest.raises(type(error), match=error.message):
        prove(well, raising(error))


@pytest.mark.parametrize("error", [FAILED, REFUSED], ids=lambda error: type(error).__name__)
def test_inputs_that_the_answering_version_refuses_too_prove_nothing(error: LightboxError) -> None:
    prove(raising(FAILED), raising(error))


def test_made_up_inputs_may_not_suit_a_version_with_other_inputs() -> None:
    prove(well, raising(REFUSED), half(2, rank=2))
    with pytest.raises(ModelFailed):
        prove(well, raising(FAILED), half(2, rank=2))


@pytest.mark.parametrize(
    ("takes", "option"),
    [
        (lambda height, width: height >= 75 and width >= 75, None),
        (lambda height, width: height % 64 == width % 64 == 0, None),
        (lambda height, width: (height, width) == (300, 400), (400, 300)),
    ],
)
def test_a_version_gets_an_image_of_a_size_that_it_takes(
    takes: Callable[[int, int], bool], option: tuple[int, int] | None
) -> None:
    def picky(inputs: Mapping[str, Array]) -> dict[str, Array]:
        if not takes(*inputs["x"].shape[2:]):
            raise FAILED
        return well(inputs)

    pixels = ("float32", (None, 3, None, None))
    one, two = (signature("net", {"x": pixels}, {"y": pixels}, number) for number in (1, 2))
    transport = serving((one, well), (two, picky))
    probe_version("net", 2, transport, Signatures(lambda model: [1]), RequestContext(PATIENCE), option)
    if option:
        with pytest.raises(ModelFailed):
            probe_version("net", 2, transport, Signatures(lambda model: [1]), RequestContext(PATIENCE))


@pytest.mark.parametrize(
    ("error", "option", "may_answer"), [(REFUSED, None, True), (FAILED, None, False), (REFUSED, (32, 32), False)]
)
def test_a_version_may_take_a_size_that_no_probe_has(
    error: LightboxError, option: tuple[int, int] | None, may_answer: bool
) -> None:
    pixels = ("float32", (None, None, None, 3))
    one, two = (signature("net", {"x": pixels}, {"y": pixels}, number) for number in (1, 2))

    def picky(inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise error if inputs["x"].shape[1] == OPEN_SIDES[-1][0] or option else REFUSED

    transport = serving((one, well), (two, picky))
    with nullcontext() if may_answer else pytest.raises(type(error)):
        probe_version("net", 2, transport, Signatures(lambda model: [1]), RequestContext(PATIENCE), option)


def test_a_version_that_the_usual_requests_cannot_ask_may_not_answer() -> None:
    transport = serving((half(1), well))
    for name in ("a", "b"):
        transport.serve(SignatureSpec("net", 2, name, half(2).inputs, half(2).outputs), well)
    with pytest.raises(UnknownSignature):
        probe_version("net", 2, transport, Signatures(lambda model: [1]), RequestContext(PATIENCE))


def test_workers_see_what_the_supervisor_writes(tmp_path: Path) -> None:
    supervisor, worker = answering_versions(tmp_path), answering_versions(tmp_path)
    assert worker.read() == {}
    for versions in ((1,), (2, 1), (1,)):
        supervisor.write({"net": versions, "other": (7,)})
        assert worker.read() == {"net": versions, "other": (7,)}
