"""The ranks read from a body: if the model server runs the request, its tensors have these ranks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.features.tfs_api.rank_reader import Ranks, body_ranks, head_ranks
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest import number_lists
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import StatusError
from support.parameters import each

ONE, TWO = {"x": dtypes.DT_FLOAT}, {"x": dtypes.DT_FLOAT, "y": dtypes.DT_FLOAT}


def test_the_rank_of_another_name_does_not_show_all() -> None:
    assert Ranks("", {None: 1}).covers(["x"]) and Ranks("", {"x": 1}).covers(["x"])
    assert not Ranks("", {"junk": 0}).covers(["x"])
    assert not Ranks("", {"x": 1}).covers(["x", "y"])


@each(
    ("body", "name", "ranks"),
    [
        ('{"instances":[1]}', "", {None: 1}),
        (' { "instances" : [ [ 1 , 2 ] ] } ', "", {None: 2}),
        ('{"signature_name":"s","inputs":[[[1]]]}', "s", {None: 3}),
        ('{"inputs":1}', "", {None: 0}),
        ('{"instances":[{"x":[1]}]}', "", {"x": 2}),
        ('{"inputs":{"x":[[1]]},"other":0}', "", {"x": 2}),
        ('{"instances":[{"b64":"AAAA"}]}', "", {None: 1}),
        ('{"instances":[{"x":{"b64":"AAAA"}}]}', "", {"x": 1}),
        ('{"instances":[[{"b64":"AAAA"}]]}', "", {None: 2}),
        ('{"instances":[1],"instances":[[1]]}', "", {None: 1}),
        ('{"signature_name":"s","instances":[1],"signature_name":"t"}', "s", {None: 1}),
    ],
)
def test_what_the_beginning_shows(body: str, name: str, ranks: dict[str | None, int]) -> None:
    assert head_ranks(body.encode()) == body_ranks(body.encode()) == Ranks(name, ranks)


@each(
    ("body", "name", "ranks"),
    [
        ('{"instances":[1],"signature_name":"s"}', "s", {None: 1}),
        ('{"instances":[1],"signature\\u005fname":"s"}', "s", {None: 1}),
        ('{"instances":[1]}{"signature_name":"s"}', "", {None: 1}),
        ('{"in\\u0073tances":[1]}', "", {None: 1}),
        ('{"other":[],"instances":[1]}', "", {None: 1}),
        ('{"instances":[{"b64":[1]}]}', "", {"b64": 2}),
        ('{"instances":[[{"x":[1]}]]}', "", {None: 2}),
        ('{"instances":[{"\\u0078":[1]}]}', "", {"x": 2}),
        ('{"signature_name":"s","inputs":{"\\u0078":[1]}}', "s", {"x": 1}),
        ('\ufeff{"instances":[1]}', "", {None: 1}),
    ],
)
def test_what_only_the_whole_body_shows(body: str, name: str, ranks: dict[str | None, int]) -> None:
    assert head_ranks(body.encode()) is None
    assert body_ranks(body.encode()) == Ranks(name, ranks)


@each("body", ["{}", '{"instances":[]}', '{"instances":1}', '{"other":[1]}'])
def test_a_body_without_inputs_has_no_ranks(body: str) -> None:
    assert body_ranks(body.encode()) == Ranks("", {})


@each("body", ["", "[1]", '{"instances":[1', '{"signature_name":1}'])
def test_a_body_of_no_form(body: str) -> None:
    with pytest.raises(StatusError):
        body_ranks(body.encode())


def test_inputs_take_what_is_theirs() -> None:
    assert Ranks("", {None: 2}).of(["x"]) == {"x": 2}
    assert Ranks("", {None: 2}).of(["x", "y"]) == {}
    assert Ranks("", {"x": 2, "z": 1}).of(["x", "y"]) == {"x": 2}


VALUES = st.recursive(
    st.sampled_from(["1", "2.5", "-0", "NaN", "Inf"]),
    lambda inner: st.tuples(inner, st.integers(0, 2)).map(lambda pair: "[" + ",".join([pair[0]] * pair[1]) + "]"),
    max_leaves=4,
)
SPACE = st.sampled_from(["", "", " ", "\n\t"])
KEYS = st.sampled_from(["x", "y", "\\u0078", "b64"])


def objects(keys: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(SPACE, keys, SPACE, SPACE, values).map(
        lambda part: f'{part[0]}"{part[1]}"{part[2]}:{part[3]}{part[4]}'
    )
    return st.lists(member, max_size=3).map(lambda members: "{" + ",".join(members) + "}")


NAMED = objects(KEYS, VALUES)
ROWS = st.lists(NAMED | VALUES, min_size=1, max_size=2).map(lambda rows: "[" + ",".join(rows) + "]")
TOP = st.sampled_from(["instances", "inputs", "instances", "in\\u0073tances", "signature_name", "other"])
BODIES = st.tuples(
    st.sampled_from(["", " ", "\ufeff"]),
    objects(TOP, ROWS | NAMED | VALUES | st.sampled_from(['"s"', '"t"'])),
    st.sampled_from(["", "x", '"signature_name":"s"}']),
).map("".join)


@settings(max_examples=150, deadline=None)
@given(BODIES, st.sampled_from([ONE, TWO]))
def test_what_the_model_server_runs_has_the_reported_ranks(body: str, types: dict[str, int]) -> None:
    data = body.encode()
    try:
        found = read_predict(data, lambda name: types)
    except StatusError:
        return
    expected = {name: array.ndim for name, array in found.inputs.items()}
    whole, head = body_ranks(data), head_ranks(data)
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("_MIN_BYTES", "_MIN_NUMBERS", "_MIN_LIST"):
            patch.setattr(number_lists, limit, 0)
        around_lists = body_ranks(data)
    for reply in (whole, around_lists):
        assert (reply.signature_name, reply.of(types)) == (found.signature_name, expected)
    if head is not None:
        assert head.signature_name == found.signature_name
        assert head.of(types).items() <= expected.items()


def test_a_large_body_is_not_parsed() -> None:
    body = json.dumps({"instances": [[[1.0]]] * 10}).encode()[:-1] + b"\xff never read"
    assert head_ranks(body) == Ranks("", {None: 3})
