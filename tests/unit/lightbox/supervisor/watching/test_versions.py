"""Versions that the model servers see and that answer, for files that appear and disappear in any order."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.supervisor.watching.versions import HIDDEN_SECONDS, LEAVING_SECONDS, QUIET_SECONDS, STALE_SECONDS
from lightbox.transports.model_status import VersionStatus
from support.versions_world import BROKEN_GRAPH, CUT, LOADED_AT_ONCE, OTHER, SLOW, UNLOADABLE, WHOLE, World


def until_loaded() -> int:
    """Return the looks until a complete version answers: two of the watch, one of the server, and its load."""
    return 2 + 1 + LOADED_AT_ONCE


SEEN = (2, "has appeared and cannot be served yet: variables are missing")


def test_what_is_not_whole_is_reported_once_when_nobody_copies_any_more() -> None:
    world = World(1)
    world.write(2, CUT)
    world.look()
    assert world.logged == [SEEN]
    world.look(round(QUIET_SECONDS) - 2)
    assert (world.logged, world.versions.not_served()) == ([SEEN], {})
    world.look(30)
    reply = (2, "is not served: variables are missing. It is tried again when its files change")
    assert (world.logged, world.versions.not_served()) == ([SEEN, reply], {2: "files"})
    world.write(2, WHOLE)
    world.look(1 + until_loaded())
    assert (world.answering, world.versions.not_served()) == (2, {})


def test_a_half_copied_version_that_takes_a_removed_ones_number_is_named_at_once_too() -> None:
    world = World(1, 2)
    world.remove(2)
    world.write(2, CUT)
    world.look(round(LEAVING_SECONDS) + 2)
    assert world.logged == [(2, "was removed; version 1 answers"), SEEN]


def held(version: int, answering: int) -> tuple[int, str]:
    why = f"it is not of the kind of version {answering}"
    return (version, f"is not served: {why}. It is tried again when its files change")


def test_a_version_of_another_kind_is_held_and_reported_once() -> None:
    world = World(1)
    world.write(2, OTHER)
    world.look(2)
    assert world.logged == [held(2, 1)], "a whole version is not waited for"
    world.look(30)
    assert (world.answering, world.visible, world.logged) == (1, {1}, [held(2, 1)])
    assert world.versions.not_served() == {2: "incompatible"}
    world.write(3, WHOLE)
    world.look(1 + until_loaded())
    assert world.answering == 3
    world.remove(2)
    world.look(10)
    assert world.versions.not_served() == {}


def test_a_version_that_could_not_be_compared_yet_is_not_shown() -> None:
    world = World(1)
    world.write(2, OTHER)
    world.lacks_descriptors = True
    for _ in range(5):
        with suppress(OSError):  # the watch reports it and looks again
            world.look()
        assert world.visible == {1}
    world.lacks_descriptors = False
    world.look(2)
    assert (world.visible, world.logged) == ({1}, [held(2, 1)])


def test_a_version_that_is_held_is_compared_again_with_the_next_one_that_answers() -> None:
    world = World(1, 2, others=[1])
    world.write(3, OTHER)
    world.look(5)
    assert (world.answering, world.logged) == (2, [held(3, 2)])
    world.remove(2)
    world.look(10)
    assert (world.answering, world.visible, world.versions.not_served()) == (3, {1, 3}, {})


def test_a_version_that_failed_its_load_is_not_compared_when_another_one_answers() -> None:
    world = World(1, 2, others=[1])
    world.write(3, UNLOADABLE)
    world.look(10)
    world.remove(2)
    world.look(10)
    assert (world.answering, [3 in world.shown, len(world.logged)]) == (1, [False, 2])


def test_a_version_that_fails_its_load_long_after_the_start_is_not_served() -> None:
    """tensorflow_model_server loads older versions after its ports are open."""
    world = World(1, 2)
    loading = {1: VersionStatus("LOADING"), 2: VersionStatus("AVAILABLE")}
    world.servers[0].states |= loading
    world.servers[0].loaded[1], world.servers[0].left[1] = UNLOADABLE, SLOW
    world.look()
    assert (world.versions.answering(), world.logged) == ([2, 1], [])
    world.look(SLOW)
    refusal = (1, "is not served: it cannot be loaded: DATA_LOSS: bad. It is tried again when its files change")
    assert (world.versions.answering(), world.logged) == ([2], [refusal])


def test_a_version_that_changes_while_it_is_loaded_is_loaded_again_from_the_start() -> None:
    world = World(1, looks_to_load=SLOW)
    world.write(2, WHOLE)
    world.look(3)
    assert 2 in world.shown
    world.write(2, CUT)
    world.look()
    assert 2 not in world.shown
    world.write(2, WHOLE)
    world.look(round(HIDDEN_SECONDS) + 2 + 2 * SLOW)
    assert world.answering == 2
    assert world.probes == [2]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (BROKEN_GRAPH, "it failed a probe: the graph fails"),
        (UNLOADABLE, "it cannot be loaded: DATA_LOSS: bad"),
    ],
)
def test_a_version_that_fails_is_taken_away_and_tried_again_only_when_its_files_change(content: str, why: str) -> None:
    world = World(1)
    world.write(2, content)
    world.look(60)
    refusal = (2, f"is not served: {why}. It is tried again when its files change")
    assert (world.logged, world.visible, world.answering) == ([refusal], {1}, 1)
    world.write(2, content)
    world.look(60)
    assert world.logged == [refusal, refusal], "the same error again is this load's too"
    world.write(2, WHOLE)
    world.look(1 + until_loaded() + round(STALE_SECONDS))
    assert world.answering == 2


def test_the_older_version_takes_over_before_the_newest_is_unloaded() -> None:
    world = World(1, 2)
    world.look()
    world.remove(2)
    world.look()
    assert (world.published[-1], world.visible) == ([1], {1, 2})
    assert world.logged == [(2, "was removed; version 1 answers")]
    world.look(round(LEAVING_SECONDS) - 1)
    assert world.visible == {1, 2}, "requests that were checked against it are still to be answered"
    world.look()
    assert world.visible == {1}
    world.look(20)
    assert world.answering == 1


def test_files_that_change_below_the_version_that_answers_are_reported_once() -> None:
    world = World(1)
    for _ in range(5):
        world.write(1, CUT)
        world.look()
    text = "has changed on disk; the files that were loaded stay in use. Give a new version a new number"
    assert (world.logged, world.answering) == ([(1, text)], 1)


def test_a_busy_sidecar_only_delays() -> None:
    world = World(1)
    world.write(2, WHOLE)
    world.busy = True
    world.look(20)
    assert (world.answering, world.logged) == (1, [])
    world.busy = False
    world.look()
    assert world.answering == 2


def test_all_model_servers_must_have_a_version_before_it_is_tried() -> None:
    world = World(1, servers=2)
    world.look()
    world.servers[1].away = True
    world.write(2, WHOLE)
    world.look(20)
    assert (world.probes, world.visible) == ([], {1})
    world.servers[1].away = False
    world.look(until_loaded())
    assert world.answering == 2


def test_a_version_that_ends_a_model_server_twice_is_refused() -> None:
    world = World(1, looks_to_load=SLOW)
    world.write(2, WHOLE)
    for _ in range(2):
        while 2 not in world.shown:
            world.look()
        world.end_server()
        assert 2 not in world.shown
    world.look(60)
    assert (world.visible, world.answering) == ({1}, 1)
    why = "the model server ended while it loaded it"
    assert world.logged == [(2, f"is not served: {why}. It is tried again when its files change")]


def test_a_folder_that_cannot_be_read_changes_nothing() -> None:
    world = World(1, 2)
    world.is_unreadable = True
    world.remove(2)
    world.look(20)
    assert world.answering == 2


def test_what_could_not_be_loaded_at_the_start_does_not_answer() -> None:
    world = World(1, 2)
    world.servers[0].states[2] = VersionStatus("END", "DATA_LOSS: bad")
    world.look()
    assert (world.published[-1], world.visible) == ([1], {1})
    assert [version for version, _ in world.logged] == [2]


EVENT = st.tuples(
    st.sampled_from([1, 2, 3]), st.sampled_from([WHOLE, OTHER, CUT, BROKEN_GRAPH, UNLOADABLE, "remove", "end", "look"])
)


@pytest.mark.extended
@settings(max_examples=100, deadline=None)
@given(
    initial=st.sampled_from([(1,), (1, 2)]),
    events=st.lists(st.tuples(EVENT, st.integers(0, 4)), max_size=25),
    looks_to_load=st.sampled_from([LOADED_AT_ONCE, SLOW]),
    servers=st.sampled_from([1, 2]),
)
def test_some_whole_version_answers_whatever_happens(
    initial: tuple[int, ...], events: list[tuple[tuple[int, str], int]], looks_to_load: int, servers: int
) -> None:
    world = World(*initial, servers=servers, looks_to_load=looks_to_load)
    for (version, event), looks in events:
        if event == "end":
            world.versions.server_ended()
        elif event == "remove":
            world.remove(version)
        elif event != "look":
            world.write(version, event)
        for _ in range(looks):
            world.look()
            assert {server.loaded[world.answering] for server in world.servers} == {WHOLE}
    world.look(60)  # no further change follows
    assert {server.loaded[world.answering] for server in world.servers} == {WHOLE}
    served = {version for version, content in world.shown.items() if content == WHOLE}
    assert served == world.visible == set(world.published[-1])
