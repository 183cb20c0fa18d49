"""Errors of a handler: Lightbox's errors stay as raised, others become 500, and the worker keeps running."""

from __future__ import annotations

import logging

import pytest

from lightbox.user_code import handlers
from support.error_shape import assert_error

from .conftest import WithCode


@pytest.mark.parametrize(
    ("raised", "status", "code", "said"),
    [
        ("lightbox.BadRequest('no cat')", 400, "bad_request", "no cat"),
        ("lightbox.BadRequest('no cat', status=422)", 422, "bad_request", "no cat"),
        ("lightbox.Unavailable('later')", 503, "unavailable", "later"),
        ("lightbox.base.errors.TooLarge('big')", 413, "too_large", "big"),
        ("TypeError('secret' * 1000)", 500, "handler_failed", "handler failed: TypeError: secret"),
        ("KeyError('x')", 500, "handler_failed", "handler failed: KeyError: 'x'"),
        ("SystemExit(3)", 500, "handler_failed", "handler failed: SystemExit: 3"),
        ("KeyboardInterrupt()", 500, "handler_failed", "handler failed: KeyboardInterrupt: "),
        ("Wordless()", 500, "handler_failed", "handler failed: Wordless: (its text cannot be made)"),
        ("lightbox.BadRequest('x', status=500)", 500, "handler_failed", "status must be from 400 to 499, got 500"),
    ],
)
@pytest.mark.parametrize("function", ["handler(data, context)", "preprocess(request)", "postprocess(outputs, request)"])
def test_what_a_handler_raises(
    with_code: WithCode, function: str, raised: str, status: int, code: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = with_code(f"""
    import lightbox
    class Wordless(Exception):
        def __str__(self): raise ValueError
    def {function}:
        raise {raised}
    """)
    with caplog.at_level(logging.ERROR, "lightbox"):
        answer = client.post("/invocations", data=IMAGE, headers={"X-Request-Id": "req-1"})
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["request_id"]) == (status, code, "req-1")
    assert said in body["error"]
    assert len(body["error"]) <= 1000
    assert "Traceback" not in body["error"]
    if status == 500:
        (record,) = caplog.records
        assert "req-1" in caplog.text and record.__dict__["request_id"] == "req-1"
        assert "inference.py" in caplog.text
        assert "lightbox/user_code/handlers.py" not in caplog.text, "our own frames are for the level debug"
    elif status < 500:
        assert not caplog.records
    assert client.post("/invocations", data=IMAGE).status_code == status


def test_texts_of_exceptions_may_stay_in_the_log(
    with_code: WithCode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handlers._Texts, "are_for_callers", True)  # restored after the test
    handlers.keep_texts()
    client = with_code("""
    def preprocess(request):
        raise ValueError("postgres://user:secret@db")
    """)
    with caplog.at_level(logging.ERROR, "lightbox"):
        answer = client.post("/invocations", data=IMAGE)
    assert answer.get_json()["error"] == "handler failed: ValueError"
    assert "handler failed: ValueError (ValueError: postgres://user:secret@db)" in caplog.text


@pytest.mark.parametrize(
    "path", ["/invocations", "/endpoints/any/invocations", "/endpoints/any/invocations-response-stream"]
)
def test_a_failing_handler_leaves_its_traceback_in_the_log_whatever_the_route(
    with_code: WithCode, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = with_code("""
    def handler(data, context):
        return 1 / 0
    """)
    answer = client.post(path, data=IMAGE, headers={"X-Amzn-RequestId": "order-7"})
    said = assert_error(answer.status_code, answer.headers, answer.data, path, "handler_failed", "order-7")
    assert said == "handler failed: ZeroDivisionError: division by zero"
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "order-7" in record.getMessage()
    assert "return 1 / 0" in caplog.text


FALCON = """
    from http import HTTPStatus
    class HTTPError(Exception):
        def __init__(self, status, title=None, description=None):
            self.status, self.title, self.description = status, title or status, description
    """


@pytest.mark.parametrize(
    ("raised", "status", "code", "said"),
    [
        ("HTTPError('400 Bad Request', description='no cat')", 400, "bad_request", "no cat"),
        ("HTTPError('422 Unprocessable Entity', 'No cat', 'a dog came')", 422, "bad_request", "No cat: a dog came"),
        ("HTTPError(409, '409 Conflict', 'two cats')", 409, "bad_request", "two cats"),
        ("HTTPError(409, '409 Conflict')", 409, "bad_request", "409 Conflict"),
        ("HTTPError('415 Unsupported Media Type')", 415, "bad_request", "415 Unsupported Media Type"),
        ("HTTPError(HTTPStatus.NOT_FOUND, 'No cat')", 404, "bad_request", "No cat"),
        ("HTTPError(503, 'Full', 'come back')", 503, "handler_failed", "Full: come back"),
        ("HTTPError('302 Found', 'Gone')", 500, "handler_failed", "handler failed: HTTPError: "),
        ("HTTPError('4000', 'Odd')", 500, "handler_failed", "handler failed: HTTPError: "),
        ("HTTPError(None, 'Odd')", 500, "handler_failed", "handler failed: HTTPError: "),
    ],
)
def test_a_falcon_error_keeps_its_status_and_text(
    with_code: WithCode, raised: str, status: int, code: str, said: str
) -> None:
    client = with_code(f"{FALCON}\n    def handler(data, context):\n        raise {raised}")
    answer = client.post("/invocations", data=IMAGE)
    assert (answer.status_code, answer.get_json()["code"]) == (status, code)
    assert answer.get_json()["error"].startswith(said)


@pytest.mark.parametrize(
    "raised",
    ["Exception(response)", "HTTPError('400 Bad Request', description=response)", "HTTPError(503, 'x', response)"],
)
def test_the_model_servers_answer_is_quoted_whole(with_code: WithCode, raised: str) -> None:
    reply = (
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: " + "expected [2], got [3]; " * 5
    )
    said = f'{{"error": "{reply}"}}'
    client = with_code(
        f"{FALCON}\n    def handler(data, context):\n        response = {said!r}\n        raise {raised}"
    )
    assert client.post("/invocations", data=IMAGE).get_json()["error"].endswith(said)


IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)
