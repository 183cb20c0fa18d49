"""lightbox.tools.client.senders: what an endpoint answers, and what is no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lightbox.tools.client.boto import bounded, runtime_client
from lightbox.tools.client.http import NoResponse, is_loopback
from lightbox.tools.client.senders import Boto3Sender, InvocationsSender, Misconfigured, OpenInferenceSender
from support.http_server import Answer as Reply
from support.http_server import answering_posts
from support.parameters import each
from support.patience import PATIENCE


@pytest.fixture
def served() -> Iterator[Any]:
    """Serve replies to POST; return the URL."""
    with ExitStack() as stack:
        yield lambda reply: stack.enter_context(answering_posts(reply))


def test_an_answer_that_is_no_json_is_kept_as_text(served: Any) -> None:
    answer = InvocationsSender(served(lambda body: (500, b"<html>" + body)), "a=b", PATIENCE).send(b"png")
    assert (answer.status, *answer.failure()) == (500, "<html>png", "status_500")


@each("protocol", ["http", "boto3"])
def test_no_proxy_is_between_this_machine_and_itself(
    served: Any, monkeypatch: pytest.MonkeyPatch, closed_port: int, protocol: str
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    url = served(lambda body: (200, b"1")).replace("127.0.0.1", "localhost")
    boto3 = Boto3Sender(bounded(runtime_client(url), PATIENCE), "any", "")
    sender = InvocationsSender(url, "", PATIENCE) if protocol == "http" else boto3
    assert sender.send(b"png").response == 1
    assert [is_loopback(name) for name in ("http://[::1]", "ws://a.localhost/", "http://10.0.0.1", "x")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_connection_that_is_closed_is_no_answer(served: Any) -> None:
    with pytest.raises(NoResponse, match=r"^\w+: "):
        InvocationsSender(served(lambda _: None), "", PATIENCE).send(b"png")


@pytest.mark.parametrize(
    ("url", "words"), [("closed", "the endpoint cannot be reached: Conn"), ("nothing://x", "No connection adapters")]
)
def test_an_endpoint_that_is_not_there_is_reported_first(closed_port: int, url: str, words: str) -> None:
    url = f"http://127.0.0.1:{closed_port}" if url == "closed" else url
    with pytest.raises(Misconfigured, match=f"^--url {url}: {words}"):
        InvocationsSender(url, "", PATIENCE).check()


@pytest.mark.parametrize(
    ("status", "models", "words"),
    [
        (200, [{"name": "b"}, {"name": "a"}, {"name": "a"}], "--model: name one of the endpoint's models: a, b$"),
        (200, [], "it has none"),
        (404, {"error": "no such path"}, "/v2/repository/index answers 404: no such path"),
    ],
)
def test_the_default_model_is_the_only_one(served: Any, status: int, models: Any, words: str) -> None:
    sender = OpenInferenceSender(served(lambda _: (status, json.dumps(models).encode())), None, PATIENCE)
    with pytest.raises(Misconfigured, match=words):
        sender._only_model()


@pytest.mark.parametrize(
    ("reply", "status", "error"),
    [
        (lambda _: (200, b'{"predictions": [1]}'), 200, "status 200"),
        (lambda _: (429, b'{"message": "later"}'), 429, "later"),
    ],
)
def test_boto3_answers_as_http_does(served: Any, reply: Reply, status: int, error: str) -> None:
    answer = Boto3Sender(runtime_client(served(reply)), "cats", "a=b").send(b"png")
    assert answer.status == status
    assert status == 200 or error in answer.failure()[0]


def test_boto3_reports_a_connection_that_is_closed(served: Any) -> None:
    with pytest.raises(NoResponse):
        Boto3Sender(runtime_client(served(lambda _: None)), "cats", "").send(b"png")
