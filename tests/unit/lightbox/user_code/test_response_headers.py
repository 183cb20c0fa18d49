"""User code sets one header, the content type. No value of it creates another header."""

from __future__ import annotations

import numpy as np
import pytest

from support.fakes import png
from support.parameters import each

from .conftest import WithCode

IMAGE = png(np.full((4, 4, 3), (10, 20, 30)))
ODD = {
    "a line break": "text/csv\r\nX-Injected: 1",
    "a bare line feed": "text/csv\nX-Injected: 1",
    "a line feed at the end": "text/csv\n",
    "a zero byte": "text/csv\0",
    "no ASCII": "text/csv; name=ä",
    "a surrogate": "text/csv; name=\ud800",
    "an escape": "text/csv; name=\x1b[2J",
    "nothing": "",
    "a page of it": "text/csv; name=" + "a" * 20_000,
}
HANDLERS = {
    "handler": "def handler(data, context): return b'1', {value!r}",
    "the pair": """
    import json
    def input_handler(data, context): return json.dumps(dict(instances=[[[[0] * 3] * 4] * 4]))
    def output_handler(response, context): return b'1', {value!r}
    """,
    "postprocess": "def postprocess(outputs, request): return b'1', {value!r}",
}


@each("value", ODD.values())
@each("code", HANDLERS.values())
def test_odd_content_types_set_no_header(with_code: WithCode, code: str, value: str) -> None:
    answer = with_code(code.format(value=value)).post("/invocations", data=IMAGE, content_type="image/png")
    assert "X-Injected" not in answer.headers
    assert answer.content_type == "application/json"
    assert sum(len(name) + len(text) for name, text in answer.headers) < 2000
    if answer.status_code == 500:
        assert answer.get_json()["code"] == "handler_failed"


@pytest.mark.parametrize("code", HANDLERS.values(), ids=HANDLERS)
def test_a_content_type_with_parameters_goes_out_once(with_code: WithCode, code: str) -> None:
    value = "text/csv; header=present; charset=utf-8"
    answer = with_code(code.format(value=value)).post("/invocations", data=IMAGE, content_type="image/png")
    assert answer.headers.getlist("Content-Type") == [value]
