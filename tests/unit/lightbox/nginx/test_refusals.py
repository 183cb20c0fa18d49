"""Error responses of the supervisor, in each form. Request headers never reach a response."""

from __future__ import annotations

import json
from email.message import Message
from email.parser import HeaderParser

import pytest

from lightbox.base.errors import STATUS_OF_CODE, LightboxError, PermissionDenied, Unauthenticated, Unavailable
from lightbox.nginx import body_memory
from lightbox.nginx.refusals import DENIED, refusal, written
from lightbox.serving.settings_loading import load_settings
from support.error_shape import assert_error
from support.parameters import each

SETTINGS = load_settings({"LIGHTBOX_MAX_BODY_MB": "5", "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "70"})
REFUSALS = {
    "400": (400, "bad_request", "the request is not well-formed HTTP"),
    "404": (404, "route_not_found", "there is no such route"),
    "405": (405, "method_not_allowed", "this route does not accept the method TRACE"),
    "413": (413, "too_large", "the request body is larger than LIGHTBOX_MAX_BODY_MB=5 MiB"),
    "414": (414, "bad_request", "the request line is too long"),
    "431": (431, "bad_request", "the request headers are too large"),
    "504": (504, "deadline_exceeded", "no answer came within 70 s"),
    "507": (503, "unavailable", "try again: nginx could not keep or forward the request"),
}
"""For each status that nginx requests: the client's status, the code, and the start of the message."""
NEVER_MODEL_ERRORS = ("400", "404", "405", "414", "431")


def ask(status: str, **sent: str) -> tuple[int, Message, bytes]:
    """Return status, headers and body of the response to nginx; pass headers with underscores."""
    given = {"X_Amzn_RequestId": "asked-1", "X_Lightbox_Request": "TRACE /x HTTP/1.1", **sent}
    question = {name.lower().replace("_", "-"): value for name, value in given.items()}
    head, _, body = refusal(SETTINGS, f"/refusal/{status}", question).partition(b"\r\n\r\n")
    first, _, headers = head.decode().partition("\r\n")
    return int(first.split()[1]), HeaderParser().parsestr(headers), body


@each("status", REFUSALS)
def test_our_own_form(status: str) -> None:
    expected, code, sentence = REFUSALS[status]
    got, headers, body = ask(status)
    reply = json.loads(body)
    assert (got, reply["code"], reply["request_id"]) == (expected, code, "asked-1")
    assert reply["error"].startswith(sentence)
    assert (headers["X-Lightbox-Code"], headers["X-Amzn-RequestId"]) == (code, "asked-1")
    assert headers["Allow"] == ("GET, HEAD, POST, DELETE" if status == "405" else None)
    assert headers["Retry-After"] == ("1" if code == "unavailable" else None)


def test_a_callers_query_is_no_part_of_the_status() -> None:
    assert ask("504?tfs-model-name=a/b")[::2] == ask("504")[::2]


@each("status", REFUSALS)
def test_sagemakers_form(status: str) -> None:
    answer = ask(status, X_Lightbox_Form="model_error")
    if status in NEVER_MODEL_ERRORS:
        plain = json.loads(ask(status)[2])
        is_on_every_path = plain["code"] == "bad_request"
        assert json.loads(answer[2]) == plain | ({} if is_on_every_path else {"message": plain["error"]})
    else:
        assert assert_error(*answer, "/endpoints/any", REFUSALS[status][1], "asked-1").startswith(REFUSALS[status][2])


@each(("status", "number"), list(zip(REFUSALS, [3, 5, 12, 8, 3, 3, 4, 14], strict=True)))
def test_the_form_of_grpc(status: str, number: int) -> None:
    got, headers, body = ask(status, X_Lightbox_Form="grpc")
    assert (got, headers["content-type"], headers["grpc-status"], body) == (200, "application/grpc", str(number), b"")
    assert (headers["lightbox-code"], headers["x-amzn-requestid"]) == (REFUSALS[status][1], "asked-1")
    assert headers["grpc-message"].startswith(REFUSALS[status][2])


def test_a_message_of_grpc_is_printable_ascii() -> None:
    reply = ask("405", X_Lightbox_Form="grpc", X_Lightbox_Request="\xff% /x")[1]["grpc-message"]
    assert reply.endswith(" %C3%BF%25")


def test_a_full_tmpdir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_memory, "free_bytes", lambda: 3_000_000)
    status, _, body = ask("507", X_Lightbox_Length="4000000")
    assert (status, json.loads(body)["code"]) == (STATUS_OF_CODE["no_room"].http, "no_room")
    assert "no room for the request body of 4,000,000 bytes" in json.loads(body)["error"]
    assert ask("507", X_Lightbox_Length="2500000")[0] == 503
    assert ask("507")[0] == 503
    monkeypatch.setattr(body_memory, "free_bytes", lambda: 0)
    assert "a request body that declares no length" in json.loads(ask("507")[2])["error"]


def test_a_probe_takes_less() -> None:
    assert b"1 KiB that this route takes" in ask("413", X_Lightbox_Length="2000")[2]
    assert b"LIGHTBOX_MAX_BODY_MB=5 MiB" in ask("413", X_Lightbox_Length="5242881")[2]


def test_nginx_may_have_dropped_a_body_before_it_asks() -> None:
    assert ask("read/nginx-refusal/404")[2] == ask("404")[2]


DENIALS = [
    (Unauthenticated("a key: 100 % ü"), 401, "16"),
    (PermissionDenied("not this", "ci"), 403, "7"),
    (Unavailable("try again"), 503, "14"),
]


@pytest.mark.parametrize(("error", "status", "grpc_status"), DENIALS, ids=lambda value: getattr(value, "code", ""))
def test_a_refused_client_gets_the_reason(error: LightboxError, status: int, grpc_status: str) -> None:
    got, headers, body = ask(DENIED, X_Lightbox_Error=written(error))
    assert (got, json.loads(body)["error"], json.loads(body)["code"]) == (status, error.message, error.code)
    challenges = headers.get_all("WWW-Authenticate") or []
    assert [word.split()[0] for word in challenges] == (["Bearer", "Basic"] if status == 401 else [])
    assert headers["Retry-After"] == ("1" if status == 503 else None)
    over_boto3 = ask(DENIED, X_Lightbox_Error=written(error), X_Lightbox_Form="model_error")
    assert over_boto3[0] == (424 if status == 503 else status)
    over_grpc = ask(DENIED, X_Lightbox_Error=written(error), X_Lightbox_Form="grpc")[1]
    assert (over_grpc["grpc-status"], over_grpc["lightbox-code"]) == (grpc_status, error.code)
