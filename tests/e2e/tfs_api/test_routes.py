"""TensorFlow Serving's REST API: recorded responses, images, the log and the limits."""

from __future__ import annotations

import base64

import numpy as np
import pytest
import requests

from contract.golden import replay
from support.fakes import png
from support.models import GOLDEN
from support.patience import PATIENCE, poll
from support.stack import Stack

CASES = [case for case in replay.load(str(GOLDEN.parent / "rest.jsonl")) if case["request"]["path"].startswith("/v1")]
DIFFERENT = {
    "metadata.label": "Lightbox configures no labels",
    "predict.label.stable": "Lightbox configures no labels",
    "predict.label.canary": "Lightbox configures no labels",
    "http.gzip_broken": "Lightbox unpacks bodies",
    "http.gzip_truncated": "Lightbox unpacks bodies",
    "http.encoding_unknown": "Lightbox unpacks bodies",
    "status.version.zero": "version 0 is the newest to clients of OpenVINO Model Server",
}
MODEL = "half_plus_two"


def test_answers_are_the_real_servers(golden_stack: Stack) -> None:
    found = {}
    for case in CASES:
        problem = replay.check_rest(f"127.0.0.1:{golden_stack.port}", case, "TMPDIR/models")
        if problem is not None:
            found[case["id"]] = problem
    assert found.keys() == DIFFERENT.keys(), found


@pytest.mark.parametrize("which", ["", "/versions/1"])
def test_an_image_in_base64_is_answered_as_on_invocations(golden_stack: Stack, which: str) -> None:
    image = {"instances": [{"b64": base64.b64encode(png(np.full((8, 8, 3), 100))).decode()}]}
    answer = requests.post(f"{golden_stack.url}/v1/models/image_mean{which}:predict", json=image, timeout=PATIENCE)
    attributes = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=image_mean"}
    expected = requests.post(f"{golden_stack.url}/invocations", json=image, headers=attributes, timeout=PATIENCE)
    assert answer.status_code == expected.status_code == 200, answer.text + expected.text
    assert answer.json() == expected.json()
    assert answer.headers["X-Lightbox-Model"] == expected.headers["X-Lightbox-Model"] == "image_mean/1"


def test_requests_are_logged_and_counted_by_their_rule(golden_stack: Stack) -> None:
    url = f"{golden_stack.url}/v1/models/{MODEL}:predict"
    good = requests.post(url, json={"instances": [1.0, 5.0]}, headers={"X-Request-Id": "tfs-good"}, timeout=PATIENCE)
    assert (good.status_code, good.json()) == (200, {"predictions": [3.5, 5.5]})
    assert good.headers["X-Lightbox-Model"].startswith(f"{MODEL}/")
    bad = requests.post(url, json={"instances": ["a"]}, headers={"X-Request-Id": "tfs-bad"}, timeout=PATIENCE)
    assert (bad.status_code, bad.headers["X-Amzn-RequestId"]) == (400, "tfs-bad")
    (logged,) = golden_stack.lines_with("request_id=tfs-good ")
    assert f"route=/v1/models/<model>:predict model={MODEL} transport=rest status=200" in logged
    assert all("error=bad_request" in line for line in golden_stack.lines_with("request_id=tfs-bad "))
    pages = (requests.get(f"{golden_stack.url}/metrics", timeout=PATIENCE).text for _ in poll())
    assert any('route="/v1/models/<model>:predict"' in page for page in pages)


def test_limits_are_lightboxs(golden_stack: Stack) -> None:
    path = f"/v1/models/{MODEL}:predict"
    answer = requests.post(golden_stack.url + path, data=iter([b" " * (101 << 20)]), timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    for path in ("/v1/../monitoring/prometheus/metrics", "/v1/%2e%2e/monitoring/prometheus/metrics"):
        request = requests.Request("GET", golden_stack.url).prepare()
        request.url = golden_stack.url + path
        with requests.Session() as session:
            assert session.send(request, timeout=PATIENCE).status_code in (400, 404)
