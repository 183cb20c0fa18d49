"""One image sent once: over HTTP, with boto3, or over the Open Inference Protocol.

A sender may be called from many threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import requests

IMAGE = "application/x-image"
MODEL_HEADER = "X-Lightbox-Model"
_SHOWN = 500


class NoResponse(Exception):
    """The endpoint was unreachable, or closed the connection before its response: the image may be sent again."""


class ResponseTimeout(Exception):
    """No response came in time. The image is not sent again: it would take as long, and the first may still run."""


class Misconfigured(Exception):
    """No image can be sent this way; the message says why."""


@dataclass(frozen=True)
class Answer:
    """The response for one image. ``response`` is the parsed body, or text if it is not JSON."""

    status: int
    response: Any
    retry_after: float | None = None
    """Seconds, where the answer says them."""
    answered_by: str = ""
    """The model as name/version, where the answer says it."""

    @property
    def code(self) -> str:
        """The code of a failed answer."""
        code = self.response.get("code") if isinstance(self.response, dict) else None
        return str(code or f"status_{self.status}")

    @property
    def error(self) -> str:
        """The error message of a failed response."""
        message = self.response.get("error") if isinstance(self.response, dict) else None
        return str(message or self.response)[:_SHOWN] or f"status {self.status}"


class Sender(Protocol):
    """Sends images to the endpoint."""

    def check(self) -> None:
        """Check, before any image is sent, that the endpoint can be reached; raise Misconfigured."""
        ...

    def send(self, image: bytes) -> Answer:
        """Send one image, once; raise NoResponse or ResponseTimeout."""
        ...


class _HttpSender:
    """The common part of both protocols over HTTP: a session for each thread, and exceptions."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._local = threading.local()

    def _request(self, method: str, path: str, **more: Any) -> requests.Response:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        session: requests.Session = self._local.session
        try:
            return session.request(method, self._url + path, timeout=self._timeout, **more)
        except requests.ReadTimeout:
            raise ResponseTimeout(f"no answer came within {self._timeout:g} s (--timeout)") from None
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            raise NoResponse(_reason(error)) from error
        except requests.RequestException as error:
            raise Misconfigured(f"--url {self._url}: {error}") from error

    def check(self) -> None:
        """Check that a server is there; a loading one returns 503, and images wait for it."""
        try:
            self._request("GET", "/ping")
        except (NoResponse, ResponseTimeout) as error:
            raise Misconfigured(f"--url {self._url}: the endpoint cannot be reached: {error}") from error


class InvocationsSender(_HttpSender):
    """POST /invocations."""

    def __init__(self, url: str, attributes: str, timeout: float) -> None:
        super().__init__(url, timeout)
        self._headers = {"Content-Type": IMAGE}
        if attributes:
            self._headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes

    def send(self, image: bytes) -> Answer:
        """Post an image to /invocations."""
        return _answer(self._request("POST", "/invocations", data=image, headers=self._headers))


class OpenInferenceSender(_HttpSender):
    """POST /v2/models/M/infer with the image after the JSON and its length, as KServe's and Triton's clients do.

    The default model is the endpoint's only one.
    """

    def __init__(self, url: str, model: str | None, timeout: float) -> None:
        super().__init__(url, timeout)
        self._model = model
        self._input = ""

    def check(self) -> None:
        """Find the names of the model and its input."""
        super().check()
        try:
            self._model = self._model or self._only_model()
            self._input = self._only_input(self._model)
        except (NoResponse, ResponseTimeout) as error:
            raise Misconfigured(f"--url {self._url}: {error}") from error

    def send(self, image: bytes) -> Answer:
        """Post an image as a tensor of bytes."""
        blob = len(image).to_bytes(4, "little") + image
        tensor = {
            "name": self._input,
            "shape": [1],
            "datatype": "BYTES",
            "parameters": {"binary_data_size": len(blob)},
        }
        head = json.dumps({"inputs": [tensor]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        return _answer(self._request("POST", f"/v2/models/{self._model}/infer", data=head + blob, headers=headers))

    def _only_model(self) -> str:
        found = self._ask("POST", "/v2/repository/index")
        names = sorted({str(model["name"]) for model in found if isinstance(model, dict) and "name" in model})
        if len(names) != 1:
            raise Misconfigured(f"--model: name one of the endpoint's models: {', '.join(names) or 'it has none'}")
        return names[0]

    def _only_input(self, model: str) -> str:
        found = self._ask("GET", f"/v2/models/{model}")
        names = [str(tensor["name"]) for tensor in found.get("inputs", [])] if isinstance(found, dict) else []
        if len(names) != 1:
            raise Misconfigured(
                f"--model {model}: expected a model with one input, it has: {', '.join(names) or 'none'}"
            )
        return names[0]

    def _ask(self, method: str, path: str) -> Any:
        answer = _answer(self._request(method, path))
        if answer.status != 200:
            raise Misconfigured(f"--url {self._url}: {path} answers {answer.status}: {answer.error}")
        return answer.response


class Boto3Sender:
    """``invoke_endpoint``, at a local endpoint or at SageMaker's."""

    def __init__(self, client: Any, endpoint: str, attributes: str, local: Sender | None = None) -> None:
        self._client = client
        self._local = local
        self._given = {"EndpointName": endpoint, "ContentType": IMAGE}
        if attributes:
            self._given["CustomAttributes"] = attributes

    def check(self) -> None:
        """Check a local endpoint over HTTP; SageMaker's have no check other than a prediction."""
        if self._local:
            self._local.check()

    def send(self, image: bytes) -> Answer:
        """Invoke the endpoint. A ModelError counts as the container's status."""
        from botocore import exceptions as failures

        try:
            answer = self._client.invoke_endpoint(Body=image, **self._given)
            body = answer["Body"].read()
        except failures.ClientError as error:
            return _from_client_error(error.response)
        except failures.ReadTimeoutError as error:
            raise ResponseTimeout(str(error)) from error
        except (failures.HTTPClientError, failures.ConnectionError, failures.IncompleteReadError) as error:
            raise NoResponse(str(error)) from error
        except failures.BotoCoreError as error:
            raise Misconfigured(f"boto3: {error}") from error
        return Answer(200, _parsed(body))


def _from_client_error(response: Mapping[str, Any]) -> Answer:
    about = response.get("ResponseMetadata", {})
    status = response.get("OriginalStatusCode") or about.get("HTTPStatusCode", 500)
    message = response.get("OriginalMessage") or response.get("Error", {}).get("Message", "")
    retry_after = _seconds(about.get("HTTPHeaders", {}).get("retry-after"))
    return Answer(int(status), _parsed(message.encode()), retry_after)


def _answer(came: requests.Response) -> Answer:
    retry_after = _seconds(came.headers.get("Retry-After"))
    return Answer(came.status_code, _parsed(came.content), retry_after, came.headers.get(MODEL_HEADER, ""))


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def _seconds(header: str | None) -> float | None:
    """Parse Retry-After; a date, which neither SageMaker nor Lightbox sends, is ignored."""
    return float(header) if header and header.isascii() and header.isdigit() else None


def _reason(error: Exception) -> str:
    """Return the innermost cause of an exception of requests, as the outer ones name objects."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return f"{type(error).__name__}: {error}"
