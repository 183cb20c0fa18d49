"""The comparison rule for transcripts: answers with the same meaning pass, all others fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.golden import replay
from support.parameters import each

SENTENCE = 'Expecting tensor size: 2 but got: 1 in "x"'
MALFORMED = {"error": "JSON Parse error: Invalid value. at offset: 14"}
EMPTY = {"error": "JSON Parse error: The document is empty"}
LABELS = {"results": [[["small", 0.75], ["large", 0.25]]]}


def predictions(*values: Any) -> dict[str, Any]:
    return {"predictions": list(values)}


def differs(want: Any, got: Any, compare: str = "exact", status: int = 200, kind: str = "application/json") -> bool:
    """Compare an answer with a recorded one in the real server's layout."""
    recorded = want if isinstance(want, str) else json.dumps(want, indent=4)
    answered = got if isinstance(got, str) else json.dumps(got, separators=(",", ":"))
    case = {"status": 200, "content_type": "application/json", "headers": {"allow": "GET"}, "body": recorded}
    answer = {"status": status, "content_type": kind, "headers": {"allow": "GET"}, "body": answered}
    return replay.differs_rest(case, compare, answer) is not None


@each(
    ("want", "got"),
    [
        (predictions(1.5, [2, True, None, "é"]), predictions(1.5, [2, True, None, "é"])),
        ({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}),
        ('{"predictions": [0.333333343, 1e+06, 1.17549435e-38]}', "[0.33333334,1000000.0,1.1754944e-38]"),
        ('{"predictions": [0.33333333333333331, 1e+300]}', "[0.3333333333333333,1e300]"),
        ('{"predictions": [NaN, Infinity, -Infinity]}', "[NaN,Infinity,-Infinity]"),
        ('{"predictions": ["\udcff"]}', '["\udcff"]'),
        ({"error": SENTENCE}, {"error": SENTENCE}),
        (MALFORMED, {"error": "JSON Parse error: Expecting value. at offset: 13"}),
        (EMPTY, EMPTY),
        ("", ""),
        ("<HTML>\n</HTML>", "<HTML>\n</HTML>"),
    ],
)
def test_what_means_the_same_is_equal(want: Any, got: Any) -> None:
    whole = f'{{"predictions":{got}}}' if isinstance(got, str) and got.startswith("[") else got
    assert not differs(want, whole)


@each(
    ("want", "got"),
    [
        # Keys
        (predictions(1.5), {"outputs": [1.5]}),
        (predictions(1.5), predictions(1.5) | {"more": 1}),
        (predictions({"a": 1, "b": 2}), predictions({"a": 1})),
        # Values: the next float32, another int, another string
        (predictions(0.1), predictions(0.10000001)),
        (predictions(16777216.0), predictions(16777218.0)),
        (predictions(1e300), predictions(1.0000002e300)),
        (predictions(1e-300), predictions(0.0)),
        (predictions(9007199254740993), predictions(9007199254740992)),
        (predictions("a"), predictions("A")),
        (predictions("a "), predictions("a")),
        (LABELS, {"results": [[["large", 0.25], ["small", 0.75]]]}),
        # Values of another type
        (predictions(3.0), predictions(3)),
        (predictions(3), predictions(3.0)),
        (predictions(1), predictions(True)),
        (predictions("1"), predictions(1)),
        (predictions(0.0), predictions(-0.0)),
        ('{"predictions": [NaN]}', predictions(None)),
        ('{"predictions": [Infinity]}', '{"predictions": [-Infinity]}'),
        ('{"predictions": [Infinity]}', predictions(3.4028235e38)),
        # Shapes
        (predictions(1.0, 2.0), predictions(1.0)),
        (predictions(1.0), predictions([1.0])),
        (predictions([]), predictions()),
        # Sentences
        ({"error": SENTENCE}, {"error": SENTENCE.replace("1", "3")}),
        ({"error": SENTENCE}, {"error": SENTENCE.replace(" ", "  ")}),
        ({"error": SENTENCE}, {"error": SENTENCE + "."}),
        ({"error": SENTENCE}, {"error": 1}),
        ({"error": SENTENCE}, MALFORMED),
        (MALFORMED, {"error": SENTENCE}),
        (MALFORMED, {"error": "JSON Parse error: Invalid value."}),
        (MALFORMED, EMPTY),
        # Not JSON
        (predictions(1.0), '{"predictions":[1.0'),
        (predictions(1.0), "[1.0]"),
        (predictions(1.0), ""),
        ("", predictions(1.0)),
        ("<HTML></HTML>", "<HTML> </HTML>"),
    ],
)
def test_what_means_something_else_differs(want: Any, got: Any) -> None:
    assert differs(want, got)


def test_status_and_content_type_are_compared() -> None:
    assert differs(predictions(1.0), predictions(1.0), status=201)
    assert differs(predictions(1.0), predictions(1.0), kind="text/plain")


def test_a_sentence_may_be_compared_by_its_beginning() -> None:
    want = {"error": 'Expecting "x"\n\t [[{{node a}}]]'}
    prefix = f"prefix:{len(json.dumps(want, indent=4).partition('node')[0])}"
    assert not differs(want, {"error": 'Expecting "x"\n\t [[{{node b}}]]'}, prefix)
    assert differs(want, {"error": 'Expecting "y"\n\t [[{{node a}}]]'}, prefix)
    assert differs(want, {"error": 'Expecting "x"'}, prefix)


@pytest.mark.parametrize(
    "got",
    [
        {"code": "INTERNAL", "details": "no", "response": None},
        {"code": "NOT_FOUND", "details": "No", "response": None},
        {"code": "OK", "details": "", "response": b""},
    ],
)
def test_another_error_over_grpc_differs(got: dict[str, Any]) -> None:
    case = {"compare": "exact", "code": "NOT_FOUND", "details": "no", "method": "", "response_base64": None}
    assert replay.differs_grpc(case, {"code": "NOT_FOUND", "details": "no", "response": None}) is None
    assert replay.differs_grpc(case, got) is not None
