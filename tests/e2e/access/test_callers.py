"""Callers with keys: boto3, streams, a browser with the page, a key file that changes, and a deciding URL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
import requests
from typing_extensions import override
from websockets.exceptions import InvalidStatus

from support.browser import Page
from support.http_server import EmptyPage, serving
from support.keys import APP, KEYS, basic, bearer, key, key_line
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import Stack, running
from support.streams import frame, opened, received


def described(stack: Stack, **headers: str) -> requests.Response:
    return requests.get(f"{stack.url}/v2/models/image_mean", headers=headers, timeout=PATIENCE)


def invoke_with(stack: Stack, given: str | None) -> Any:
    """Call through boto3, which signs each request."""
    runtime = stack.boto3()
    if given is not None:
        runtime.meta.events.register(
            "before-call.sagemaker-runtime", lambda params, **_: params["headers"].update({"X-API-Key": given})
        )
    return runtime.invoke_endpoint(EndpointName="any", ContentType="image/png", TargetModel="image_mean", Body=frame(7))


def test_boto3_has_its_key_beside_its_signature(keyed: Stack) -> None:
    assert json.loads(invoke_with(keyed, key("ci"))["Body"].read())["predictions"]
    for given, status in ((None, 401), ("wrong", 401), (key("grafana"), 403)):
        with pytest.raises(botocore.exceptions.ClientError) as raised:
            invoke_with(keyed, given)
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


def refused(stack: Stack, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as raised, opened(stack, additional_headers=headers):
        pass
    return raised.value.response.status_code


def test_a_stream_has_the_key_of_its_opening(keyed: Stack) -> None:
    assert [refused(keyed), refused(keyed, **{"X-API-Key": "wrong"}), refused(keyed, **bearer("grafana"))] == [
        401,
        401,
        403,
    ]
    for headers in (bearer("ci"), {"X-API-Key": key("ci")}, {"Authorization": basic("ci", key("ci"))}):
        with opened(keyed, "tfs-model-name=image_mean", additional_headers=headers) as stream:
            stream.send(frame(9))
            assert received(stream)["status"] == 200


def test_a_file_that_changes_counts(keyed: Stack, key_file: Path) -> None:
    before, late = key_file.read_text(), {"X-API-Key": "late"}
    assert described(keyed, **late).status_code == 401
    try:
        with opened(keyed, "tfs-model-name=image_mean", additional_headers=bearer("ci")) as stream:
            key_file.write_text(key_line("late", "late"))
            keyed.wait_until(lambda: described(keyed, **late).status_code == 200)
            assert [described(keyed, **headers).status_code for headers in (late, bearer("ci"))] == [200, 401]
            stream.send(frame(9))
            assert received(stream)["status"] == 401
        key_file.write_text("late\n")
        keyed.wait_until(lambda: "line 1: expected a name" in keyed.log)
        assert described(keyed, **late).status_code == 200
    finally:
        key_file.write_text(before)
        keyed.wait_until(lambda: described(keyed, **bearer("ci")).status_code == 200)


def test_the_page_opens_with_name_and_key(keyed: Stack, chromium: Any) -> None:
    page = Page(chromium, keyed.url)
    # The URL carries name and key, as entered in the browser's dialog.
    chromium.get(keyed.url.replace("://", f"://boss:{key('boss')}@"))
    page.open()
    page.sample("coffee.jpg")
    answers = page.run()
    assert {answer["status"] for answer in answers} == {200}
    assert page.complaints() == []


_FETCH = """
const [url, headers, done] = arguments;
fetch(url, {method: "POST", headers, body: "no image"}).then(
  async (answer) => done([answer.status, answer.headers.get("X-Amzn-RequestId"), (await answer.json()).code]),
  (error) => done([0, null, String(error)]));
"""


def test_scripts_of_an_allowed_site_call_and_others_do_not(keyed: Stack, site: str, chromium: Any) -> None:
    before = len(keyed.log)
    sent = {"Content-Type": "image/png", "X-API-Key": key("ci"), "X-Amzn-RequestId": "from-a-script"}
    url = f"{keyed.url}/models/image_mean/invoke"
    chromium.get(site)
    assert chromium.execute_async_script(_FETCH, url, sent) == [400, "from-a-script", "image_undecodable"]
    assert chromium.execute_async_script(_FETCH, url, sent | {"X-API-Key": "wrong"})[::2] == [401, "unauthenticated"]
    chromium.get(site.replace("127.0.0.1", "localhost"))
    assert chromium.execute_async_script(_FETCH, url, sent)[:2] == [0, None]
    # The browser sends a preflight request, and does not send the refused request.
    keyed.wait_until(lambda: "error=permission_denied" in keyed.log[before:])
    refused = [line for line in keyed.log[before:].splitlines() if "error=permission_denied" in line]
    assert ["method=OPTIONS" in line for line in refused] == [True]
    chromium.get_log("browser")  # drop its messages about refusals


PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-api-key"}


def test_a_preflight_needs_no_key(keyed: Stack) -> None:
    url = f"{keyed.url}/invocations"
    allowed = requests.options(url, headers={"Origin": APP, **PREFLIGHT}, timeout=PATIENCE)
    assert (allowed.status_code, allowed.content) == (204, b"")
    assert allowed.headers["Access-Control-Allow-Origin"] == APP
    assert allowed.headers["Access-Control-Allow-Headers"] == "content-type,x-api-key"
    assert "POST" in allowed.headers["Access-Control-Allow-Methods"]
    assert "Access-Control-Allow-Credentials" not in allowed.headers
    for headers in (
        PREFLIGHT | {"Origin": "https://app.example.com.evil"},
        PREFLIGHT | {"Origin": f"x{APP}"},
        PREFLIGHT,
        {"Origin": APP},
    ):
        refused = requests.options(url, headers=headers, timeout=PATIENCE)
        assert refused.status_code in (401, 403)
        assert refused.headers.get("Access-Control-Allow-Origin") in (None, APP)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v2/models/image_mean", bearer("ci"), 200),
        ("GET", "/v2/models/image_mean", {}, 401),
        ("GET", "/models", bearer("ci"), 403),
        ("GET", "/nothing", bearer("ci"), 404),
        ("GET", "/invocations", bearer("ci"), 405),
        ("TRACE", "/invocations", bearer("ci"), 405),
        ("POST", "/invocations", bearer("ci") | {"Content-Length": "90000000"}, 413),
        ("POST", "/endpoints/any/invocations", bearer("ci"), 424),
        ("GET", "/ping", {}, 200),
    ],
)
def test_scripts_read_every_response_errors_too(
    keyed: Stack, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = requests.request(method, keyed.url + path, headers=headers | {"Origin": APP}, timeout=PATIENCE)
    assert answer.status_code == status
    assert answer.headers["Access-Control-Allow-Origin"] == APP
    assert "X-Amzn-RequestId" in answer.headers["Access-Control-Expose-Headers"]
    assert "Origin" in answer.headers["Vary"]
    without = requests.request(method, keyed.url + path, headers=headers, timeout=PATIENCE)
    assert "Access-Control-Allow-Origin" not in without.headers
    assert "Origin" in without.headers["Vary"]  # so that a cache keeps them apart


class Decider(EmptyPage):
    """Admits the bearer of the right token. Always names the caller ``ann``."""

    asked: list[dict[str, str]]

    @override
    def do_GET(self) -> None:
        self.asked.append(dict(self.headers.items()))
        given = self.headers.get("Authorization", "")
        self.status = {"Bearer good": 204, "Bearer other": 403, "Bearer broken": 500}.get(given, 401)
        super().do_GET()

    @override
    def end_headers(self) -> None:
        self.send_header("X-Auth-Name", "ann")
        super().end_headers()


@pytest.mark.extended
def test_a_url_decides(tmp_path: Path) -> None:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    Decider.asked = []
    with serving(Decider) as url:
        environ = {"LIGHTBOX_AUTH_URL": f"{url}/check", "LIGHTBOX_STREAMS": "true"}
        with running(tmp_path / "models", tmp_path / "run", **environ) as stack:
            reply = [
                described(stack, Authorization=f"Bearer {token}").status_code
                for token in ("good", "other", "broken", "none")
            ]
            assert reply == [200, 403, 503, 401]
            asked = len(Decider.asked)
            assert described(stack, Authorization="Bearer good").status_code == 200
            odd = requests.get(f"{stack.url}/v2/%0a", headers={"Authorization": "Bearer good"}, timeout=PATIENCE)
            assert (odd.status_code, odd.json()["code"], len(Decider.asked)) == (403, "permission_denied", asked + 1)
            assert Decider.asked[0]["X-Forwarded-Uri"] == "/v2/models/image_mean"
            assert Decider.asked[0]["X-Lightbox-Role"] == "infer"
            assert requests.get(f"{stack.url}/metrics", timeout=PATIENCE).status_code == 401
            assert stack.ping() == 200
            with opened(stack, additional_headers={"Authorization": "Bearer good"}) as stream:
                stream.send(frame(9))
                assert received(stream)["status"] == 200
            stack.wait_until(lambda: " caller=ann " in stack.log)
            over_boto3 = requests.post(
                f"{stack.url}/endpoints/any/invocations", headers={"Authorization": "Bearer broken"}, timeout=PATIENCE
            )
            assert (over_boto3.status_code, over_boto3.headers["Retry-After"]) == (424, "1")
        # running() has stopped it: the next stack cannot reach the decider.
    with running(tmp_path / "models", tmp_path / "again", **environ) as stack:
        answer = described(stack, Authorization="Bearer good")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


@pytest.mark.extended
def test_a_start_says_whether_keys_are_asked_for(keyed: Stack, stack: Stack) -> None:
    open_to_all = "no keys are set: everyone who reaches port"
    assert (open_to_all in keyed.log, stack.log.count(open_to_all)) == (False, 1)
    assert f"callers: holders of a key; {len(KEYS)} are in " in keyed.log
