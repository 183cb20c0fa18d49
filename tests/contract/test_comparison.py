"""The comparison rule for transcripts: an answer with another meaning fails. The transcripts show what passes."""

from __future__ import annotations

import json
from typing import Any

from contract.golden import replay
from support.parameters import each

SENTENCE = 'Expecting tensor size: 2 but got: 1 in "x"'
MALFORMED = {"error": "JSON Parse error: Invalid value. at offset: 14"}
EMPTY = {"error": "JSON Parse error: The document is empty"}
LABELS = {"results": [[["small", 0.75], ["large", 0.25]]]}


def predictions(*values: Any) -> dict[str, Any]:
    return {"predictions": list(values)}


def differs(want: Any, got: Any) -> bool:
    """Compare an answer with a recorded one in the real server's layout."""
    recorded = want if isinstance(want, str) else json.dumps(want, indent=4)
    answered = got if isinstance(got, str) else json.dumps(got, separators=(",", ":"))
    case = {"status": 200, "content_type": "application/json", "headers": {"allow": "GET"}, "body": recorded}
    return replay.differs_rest(case, "exact", case | {"body": answered}) is not None


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
