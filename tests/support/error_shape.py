"""The common form of errors on all routes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

from lightbox.base.errors import STATUS_OF_CODE


class HeadersLike(Protocol):
    """The headers of any library's response."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return names and values."""
        ...


def assert_error(
    status: int, headers: HeadersLike, body: bytes, path: str, code: str, request_id: str | None = None
) -> str:
    """Assert an error's status, headers and body for a route; return its message.

    On boto3's routes it expects a ModelError, except for an unknown route or method. ``request_id`` is the
    caller's request id, if any.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    assert sent["content-type"] == "application/json"
    assert int(sent["content-length"]) == len(body)
    answer = json.loads(body)
    if path.startswith("/endpoints/") and code not in ("route_not_found", "method_not_allowed"):
        assert (status, sent["x-amzn-errortype"]) == (424, "ModelError")
        assert answer.keys() == {"Message", "OriginalStatusCode", "OriginalMessage", "LogStreamArn"}
        status, model_error, answer = answer["OriginalStatusCode"], answer, json.loads(answer["OriginalMessage"])
        expected = f"Received status {status} from the model container: {answer['error']}"
        assert model_error["Message"] == expected
    else:
        assert "x-amzn-errortype" not in sent
    if path.startswith("/endpoints/"):
        assert answer.pop("message", answer["error"]) == answer["error"]
    assert answer.keys() == {"error", "code", "request_id"}
    assert (answer["code"], status) == (code, STATUS_OF_CODE[code].http)
    assert answer["request_id"] == sent["x-amzn-requestid"] == (request_id or sent["x-amzn-requestid"])
    return str(answer["error"])
