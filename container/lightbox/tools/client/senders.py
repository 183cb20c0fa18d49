"""One image sent once: over HTTP, with boto3, or over the Open Inference Protocol.

A sender may be called from many threads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lightbox.tools.client.http import MOST_RESPONSE, BadResponse, Came, Http, NoResponse, ResponseTimeout

IMAGE = "application/x-image"
MODEL_HEADER = "X-Lightbox-Model"
_SHOWN, _SHOWN_CODE, _SHOWN_NAME = 500, 100, 200
LONGEST_WAIT = 60.0
"""Seconds that ``Retry-After`` is followed."""


class Misconfigured(Exception):
    """No image can be sent this way; the message says why."""


@dataclass(frozen=True)
class Response:
    """The response for one image. ``body`` is parsed where it is needed: values take many times its memory."""

    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds, where the response says them."""
    answered_by: str = ""
    """The model as name/version, where the response says it."""

    @property
    def response(self) -> Any:
        """The body's document, or text if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return self.body.decode(errors="replace")

    def failure(self) -> tuple[str, str]:
        """Return the message and the code of a failed response."""
        response = self.response
        about = response if isinstance(response, dict) else {}
        message = str(about.get("error") or response)[:_SHOWN] or f"status {self.status}"
        return message, str(about.get("code") or f"status_{self.status}")[:_SHOWN_CODE]


class Sender(Protocol):
    """Sends images to the endpoint."""

    def check(self) -> None:
        """Check, before any image is sent, that the endpoint can be reached; raise Misconfigured."""
        ...

    def send(self, image: bytes) -> Response:
        """Send one image, once; raise NoResponse, ResponseTimeout or BadResponse."""
        ...


class _HttpSender:
    """The common part of both protocols over HTTP."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._http = Http(timeout)

    def _request(self, method: str, path: str, body: bytes | None = None, headers: Any = None) -> Came:
        return self._http.request(method, self._url + path, body, headers)

    def check(self) -> None:
        """Check that a server is there; a loading one returns 503, and images wait for it."""
        try:
            self._request("GET", "/ping")
        except (NoResponse, ResponseTimeout) as error:
            raise Misconfigured(f"--url {self._url}: the endpoint cannot be reached: {error}") from error
        except BadResponse as error:
            raise Misconfigured(f"--url {self._url}: {error}") from error


class InvocationsSender(_HttpSender):
    """POST /invocations."""

    def __init__(self, url: str, attributes: str, timeout: float) -> None:
        super().__init__(url, timeout)
        self._headers = {"Content-Type": IMAGE}
        if attributes:
            self._headers["X-Amzn-SageMaker-Custom-Attributes"] = attributes

    def send(self, image: bytes) -> Response:
        """Post an image to /invocations."""
        return _response(self._request("POST", "/invocations", image, self._headers))


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
        except (NoResponse, ResponseTimeout, BadResponse) as error:
            raise Misconfigured(f"--url {self._url}: {error}") from error

    def send(self, image: bytes) -> Response:
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
        return _response(self._request("POST", f"/v2/models/{self._model}/infer", head + blob, headers))

    def _only_model(self) -> str:
        found = self._ask("POST", "/v2/repository/index")
        found = found if isinstance(found, list) else []
        names = sorted({str(model["name"]) for model in found if isinstance(model, dict) and "name" in model})
        if len(names) != 1:
            raise Misconfigured(f"--model: name one of the endpoint's models: {', '.join(names) or 'it has none'}")
        return names[0]

    def _only_input(self, model: str) -> str:
        found = self._ask("GET", f"/v2/models/{model}")
        tensors = found.get("inputs") if isinstance(found, dict) else None
        tensors = tensors if isinstance(tensors, list) else []
        names = [str(tensor["name"]) for tensor in tensors if isinstance(tensor, dict) and "name" in tensor]
        if len(names) != 1:
            raise Misconfigured(
                f"--model {model}: expected a model with one input, it has: {', '.join(names) or 'none'}"
            )
        return names[0]

    def _ask(self, method: str, path: str) -> Any:
        response = _response(self._request(method, path))
        if response.status != 200:
            raise Misconfigured(f"--url {self._url}: {path} answers {response.status}: {response.failure()[0]}")
        return response.response


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

    def send(self, image: bytes) -> Response:
        """Invoke the endpoint. A ModelError counts as the container's status."""
        from botocore import exceptions as failures

        try:
            response = self._client.invoke_endpoint(Body=image, **self._given)
            body = response["Body"].read(MOST_RESPONSE + 1)
        except failures.ClientError as error:
            return _from_client_error(error.response)
        except failures.ReadTimeoutError as error:
            raise ResponseTimeout(str(error)) from error
        except (failures.HTTPClientError, failures.ConnectionError, failures.IncompleteReadError) as error:
            raise NoResponse(str(error)) from error
        except failures.BotoCoreError as error:
            raise Misconfigured(f"boto3: {error}") from error
        if len(body) > MOST_RESPONSE:
            raise BadResponse(f"the answer is larger than {MOST_RESPONSE >> 20} MiB")
        return Response(200, body)


def _from_client_error(response: Mapping[str, Any]) -> Response:
    about = response.get("ResponseMetadata", {})
    status = response.get("OriginalStatusCode") or about.get("HTTPStatusCode", 500)
    message = response.get("OriginalMessage") or response.get("Error", {}).get("Message", "")
    retry_after = _seconds(about.get("HTTPHeaders", {}).get("retry-after"))
    return Response(int(status), str(message).encode(errors="replace"), retry_after)


def _response(came: Came) -> Response:
    retry_after = _seconds(came.headers.get("Retry-After"))
    return Response(came.status, came.body, retry_after, came.headers.get(MODEL_HEADER, "")[:_SHOWN_NAME])


def _seconds(header: str | None) -> float | None:
    """Parse Retry-After; a date, which neither SageMaker nor Lightbox sends, is ignored."""
    return min(float(header), LONGEST_WAIT) if header and header.isascii() and header.isdigit() else None
