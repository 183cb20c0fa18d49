"""AWS's handler API: ``handler(data, context)``, or ``input_handler`` with ``output_handler``.

The context and the order of its fields are those of release 2.20 (https://github.com/aws/deep-learning-containers);
earlier ones have no ``timeout``.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

from typing_extensions import override

from lightbox.base.errors import HandlerFailed
from lightbox.codecs.base import Response
from lightbox.user_code.api_detection import Function
from lightbox.user_code.handlers import as_bytes, call, check_content_type

JSON = "application/json"
"""A handler's default for Content-Type and Accept, and for the type of its body."""


class Context(NamedTuple):
    """AWS's context of a request for a handler."""

    model_name: str
    """The requested model, or the default one."""

    model_version: str | None
    """``tfs-model-version``, or None: the newest."""

    method: str | None
    """``tfs-method``, or None: predict."""

    rest_uri: str
    """The model server's REST address for this model, version and method."""

    grpc_port: str
    """The model server's gRPC port on localhost."""

    channel: Any
    """A grpc.Channel to the model server, shared by all requests of a worker; messages of any size pass."""

    custom_attributes: str | None
    """The raw header ``X-Amzn-SageMaker-Custom-Attributes``."""

    request_content_type: str
    """The raw Content-Type; ``application/json`` if absent."""

    accept_header: str
    """The raw Accept header; ``application/json`` if absent."""

    content_length: int
    """Bytes of the body."""

    timeout: int
    """Whole seconds for a call of the model server."""


class PortlessContext(Context):
    """A context without a port for REST or gRPC: reading the field raises an error that says how to open one.

    ``input_handler`` and ``output_handler`` need neither, and ``channel`` works without them.
    """

    __slots__ = ()

    @property
    @override
    def rest_uri(self) -> str:
        """The model's REST address. Raises HandlerFailed without a REST port."""
        return _require_port("rest_uri", self[3])

    @property
    @override
    def grpc_port(self) -> str:
        """The model server's gRPC port. Raises HandlerFailed without one."""
        return _require_port("grpc_port", self[4])


def _require_port(field: str, value: str) -> str:
    if not value:
        raise HandlerFailed(
            f"context.{field}: the model server has no such port: start with LIGHTBOX_TRANSPORT=grpc,rest, "
            "or use context.channel"
        )
    return value


@dataclass(frozen=True)
class AwsHandlers:
    """``handler``, or else the pair ``input_handler`` and ``output_handler``."""

    handler: Function | None = None
    input_handler: Function | None = None
    output_handler: Function | None = None

    def answer(self, body: bytes, context: Context) -> Response:
        """Call ``handler`` for a request. Raises HandlerFailed and every LightboxError of the user's code."""
        assert self.handler is not None, "the pair answers"
        return _read_response("handler", call(self.handler, BytesIO(body), context))

    def prepare(self, body: bytes, context: Context) -> bytes:
        """Return the JSON that ``input_handler`` makes of a request. Raises as ``answer`` does."""
        assert self.input_handler is not None, "handler answers"
        return _read_body(call(self.input_handler, BytesIO(body), context))

    def finish(self, response: object, context: Context) -> Response:
        """Call ``output_handler`` with the model's response, a ``requests.Response``. Raises as ``answer`` does.

        It is called for status 200 only, as since release 2.20. Earlier releases also passed other statuses, and
        handlers that did not check them turned errors into 200.
        """
        assert self.output_handler is not None, "handler answers"
        return _read_response("output_handler", call(self.output_handler, response, context))


def _read_body(result: Any) -> bytes:
    """Return the body that input_handler returns: text, bytes, or a file of either."""
    content = call(result.read) if hasattr(result, "read") else result
    body = as_bytes(content)
    if body is None:
        raise HandlerFailed(
            f"input_handler returned {type(result).__name__}: expected the JSON text that the model server gets, "
            "as str or bytes, such as json.dumps({'instances': ...})"
        )
    return body


def _read_response(name: str, result: Any) -> Response:
    if not isinstance(result, tuple | list) or len(result) != 2:
        came = f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__
        raise HandlerFailed(f"{name} returned {came}: expected two values, the body and its content type")
    body, content_type = as_bytes(result[0]), result[1]
    if body is None:
        raise HandlerFailed(f"{name} returned {type(result[0]).__name__} as the body: expected str or bytes")
    return Response(body, JSON if content_type is None else check_content_type(name, content_type))
