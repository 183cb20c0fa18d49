"""The status of versions on model servers: both clients return the same, and one rule gives the result of a load."""

from __future__ import annotations

from lightbox.transports.model_status import Load, ServerState, VersionStatus
from support.parameters import each

ERROR = "DATA_LOSS: Can't parse /m/1/saved_model.pb"


LOADING, AVAILABLE = VersionStatus("LOADING"), VersionStatus("AVAILABLE")
FAILED = VersionStatus("END", ERROR)


@each(
    ("before", "seen", "has_failed"),
    [
        ({}, [{1: FAILED}], True),
        ({1: FAILED}, [{1: FAILED}], False),
        ({1: FAILED}, [{1: LOADING}, {1: FAILED}], True),
        ({1: VersionStatus("END", "INTERNAL: other")}, [{1: FAILED}], True),
        ({1: VersionStatus("END")}, [{1: FAILED}], True),
        (None, [None, {1: FAILED}], True),
        ({}, [{1: LOADING, 2: FAILED}], False),
        ({}, [{1: VersionStatus("END")}], False),
    ],
)
def test_an_end_is_this_loads_when_something_else_was_seen(
    before: ServerState, seen: list[ServerState], has_failed: bool
) -> None:
    load = Load([1], [before])
    failures = [load.failure([state]) for state in seen]
    assert failures[:-1] == [None] * (len(seen) - 1)
    assert failures[-1] == ((1, ERROR) if has_failed else None)


def test_an_end_is_this_loads_once_the_server_has_begun() -> None:
    load = Load([1], [{1: FAILED}, {1: FAILED}])
    assert load.failure([{1: FAILED}, {1: FAILED}]) is None
    load.note_started(1)
    assert load.failure([{1: FAILED}, None]) is None
    assert load.failure([{1: FAILED}, {1: FAILED}]) == (1, ERROR)


def test_a_load_is_done_when_every_server_has_every_version() -> None:
    load = Load([1, 2], [{}, {}])
    both: ServerState = {1: AVAILABLE, 2: AVAILABLE, 3: FAILED}
    states: list[ServerState] = [{1: AVAILABLE}, {1: AVAILABLE, 2: LOADING}, {}, None]
    assert [load.is_done([both, other]) for other in (both, *states)] == [True, False, False, False, False]
