"""Every content type in and out through the whole stack, over both transports."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import numpy as np
import pytest
import requests

from contract.golden import replay
from support.models import GOLDEN
from support.parameters import each
from support.patience import PATIENCE
from support.stack import Stack

WIRES = ["grpc", "rest"]
FLOATS_RTOL = 1e-5


def invoke(
    stack: Stack, body: bytes | str, model: str, wire: str, attributes: str = "", **headers: str
) -> requests.Response:
    named = ", ".join(filter(None, [f"tfs-model-name={model}", f"tfs-transport={wire}", attributes]))
    data = body.encode() if isinstance(body, str) else body
    return stack.invoke(data, X_Amzn_SageMaker_Custom_Attributes=named, **headers)


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_not_finite_goes_both_ways(golden_stack: Stack, wire: str) -> None:
    answer = invoke(golden_stack, "[NaN, Infinity, -Infinity]", "half_plus_two", wire)
    assert answer.text == '{"predictions":[NaN,Infinity,-Infinity]}'


CALL = re.compile(r"/v1/models/(\w+)(?:/versions/(\d+))?:(predict|classify|regress)")
RECORDED = [
    case
    for case in replay.load(str(GOLDEN.parent / "rest.jsonl"))
    if case["request"]["method"] == "POST"
    and CALL.fullmatch(case["request"]["path"])
    and not case["request"].get("headers")
]


def replayed(stack: Stack, case: dict[str, Any], wire: str) -> requests.Response:
    match = CALL.fullmatch(case["request"]["path"])
    assert match is not None
    model, version, method = match.groups()
    attributes = f"tfs-method={method}" + (f", tfs-model-version={version}" if version else "")
    return invoke(stack, replay.rest_body(case["request"]) or b"", model, wire, attributes)


REFUSED = {
    "integers never wrap around": "dtypes.uint8.over dtypes.uint8.negative dtypes.int8.over image_mean.over",
    "the body is JSON to its end": ("json.inf_short json.trailing json.trailing_object json.nul json.invalid_utf8"),
}
SERVED = {
    "other JSON becomes instances": "predict.bad.list predict.bad.number",
    "outputs without rows come by name": "scalar_out.row scalar_out.one.row scalar_out.mixed.row",
    "of a name given twice the last value counts": "json.dup json.dup_input json.dup_signature",
    "bytes that are no UTF-8 are written as base64": "strings.single.b64_binary_out",
}
SERVED_OVER_GRPC = {"float16 and uint16 can be sent": "dtypes.half.row dtypes.all.col dtypes.uint16.row floats.half"}
NOT_FOUND = {"the model is looked up before the body is read": "predict.model.unknown_bad_body"}


def ids(reasons: dict[str, str]) -> set[str]:
    return set(" ".join(reasons.values()).split())


def expected_status(case: dict[str, Any], wire: str) -> int:
    if case["id"] in ids(REFUSED):
        return 400
    if case["id"] in ids(NOT_FOUND):
        return 404
    if case["id"] in ids(SERVED) or (wire == "grpc" and case["id"] in ids(SERVED_OVER_GRPC)):
        return 200
    # TensorFlow Serving's message for values that its JSON cannot represent.
    return 400 if case["response"]["status"] == 501 else int(case["response"]["status"])


@each("wire", WIRES)
@each("case", RECORDED)
def test_what_the_real_server_answers_is_answered(golden_stack: Stack, wire: str, case: dict[str, Any]) -> None:
    answer, want = replayed(golden_stack, case, wire), case["response"]
    assert answer.status_code == expected_status(case, wire), answer.text
    if want["status"] == answer.status_code == 200 and case["id"] not in ids(SERVED):
        body = replay.expand(want["body_parts"]).decode() if "body_parts" in want else want["body"]
        assert replay.same(answer.json(), json.loads(body), FLOATS_RTOL)


def test_every_listed_difference_was_recorded() -> None:
    listed = ids(REFUSED) | ids(SERVED) | ids(SERVED_OVER_GRPC) | ids(NOT_FOUND)
    assert listed <= {case["id"] for case in RECORDED}


def large(stack: Stack, path: str = "/invocations", **headers: str) -> requests.Response:
    """Return an answer of about 100 kB as received, without decompression."""
    with requests.Session() as session:
        session.headers.clear()
        body = json.dumps(np.arange(20_000).tolist())
        answer = session.post(stack.url + path, body, headers=headers, timeout=PATIENCE, stream=True)
        answer.raw.decode_content = False
        answer._content = answer.raw.read()
        return answer


@pytest.mark.parametrize("path", ["/invocations", "/endpoints/any/invocations"])
@pytest.mark.parametrize("accept", ["application/json", "application/jsonlines", "text/csv", "application/x-npy"])
def test_a_large_answer_is_compressed_for_who_accepts_it(golden_stack: Stack, path: str, accept: str) -> None:
    plain = large(golden_stack, path, Accept=accept)
    assert "Content-Encoding" not in plain.headers
    packed = large(golden_stack, path, Accept=accept, **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
    assert gzip.decompress(packed.content) == plain.content


@pytest.mark.parametrize("encodings", ["gzip;q=0", "br", "identity"])
def test_nothing_is_compressed_for_others(golden_stack: Stack, encodings: str) -> None:
    assert "Content-Encoding" not in large(golden_stack, **{"Accept-Encoding": encodings}).headers


def test_a_small_answer_is_not_compressed(golden_stack: Stack) -> None:
    assert "Content-Encoding" not in golden_stack.invoke(b"[1]", Accept_Encoding="gzip").headers


def test_compressed_bodies_are_read(golden_stack: Stack) -> None:
    body = gzip.compress(b'{"instances": [1, 2.5]}')
    answer = golden_stack.invoke(
        body, Content_Encoding="gzip", X_Amzn_SageMaker_Custom_Attributes="tfs-model-version=1"
    )
    assert answer.json() == {"predictions": [2.5, 3.25]}
    bomb = gzip.compress(bytes(101 << 20))
    refused = golden_stack.invoke(bomb, Content_Encoding="gzip")
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
