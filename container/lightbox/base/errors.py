"""The exception tree, and the one table from error code to HTTP and gRPC status.

    LightboxError
    ├── BadRequest            the request cannot be used; handlers may raise it
    │   ├── HandlerRefused    the handler's falcon.HTTPError
    │   ├── ImageUndecodable
    │   ├── UnknownSignature
    │   ├── UnknownSession    defined in features/sessions
    │   ├── LoadFailed        a model's version failed to load, defined in features/multi_model
    │   ├── InputMismatch     name, dtype, rank or dimensions differ from the model's signature
    │   └── MalformedBody
    ├── TooLarge              bytes, pixels or frames beyond a limit
    │   └── TooLargeMessage   a message of a gRPC stream; the stream goes on
    ├── ModelNotFound
    ├── AlreadyLoaded         a duplicate load
    ├── NoRoom
    ├── RouteNotFound
    ├── MethodNotAllowed
    ├── Unimplemented         an unknown gRPC method
    ├── Unauthenticated
    ├── PermissionDenied
    ├── NotAcceptable
    ├── UnsupportedMediaType
    ├── Unavailable           try again later: the model is loading, its server is down, the queue is full
    │   ├── RateLimited       of a key
    │   ├── QueueFull · Starting · Stopping · WorkerLost · ModelLoading
    │   ├── ModelServerUnreachable no connection, so the request was never sent
    │   ├── QueueTimeout      the deadline passed in the queue
    │   └── ClientDisconnected the client disconnected in the queue
    ├── DeadlineExceeded
    │   └── LoadTimeout       of POST /models, 408
    ├── OptionsMismatch       the model's options ask for pixels that its input cannot hold
    ├── ModelFailed           the model server ran the model and it failed
    │   └── ModelUninitialized  its variables or tables are missing: every input fails
    ├── ModelServerError      the model server's own status and message
    ├── EndpointError         an endpoint's error, for `lightbox predict`; defined in offline
    └── HandlerFailed         the user's code raised another exception

    StartError                stops a start; each is defined where it is raised
    ├── SettingsError · ModelLayoutError · ModelOptionsError · ModelFileError · UserCodeError
    ├── ModelServerMissing · TransportRefused · NginxMissing · TracingMissing · PortTaken · RunDirError
    ├── TlsError · KeysUnusable · BrokenArchive
    └── StartRefused · ChildFailed

Messages are whole sentences: the field, the expected value, the value that came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lightbox.base.error_texts import shorten, shorten_echoes


@dataclass(frozen=True)
class Status:
    """The HTTP status and the gRPC status name of an error code."""

    http: int
    grpc: str


STATUS_OF_CODE: dict[str, Status] = {
    "bad_request": Status(400, "INVALID_ARGUMENT"),
    "image_undecodable": Status(400, "INVALID_ARGUMENT"),
    "input_mismatch": Status(400, "INVALID_ARGUMENT"),
    "malformed_body": Status(400, "INVALID_ARGUMENT"),
    "unknown_session": Status(400, "INVALID_ARGUMENT"),
    "unauthenticated": Status(401, "UNAUTHENTICATED"),
    "permission_denied": Status(403, "PERMISSION_DENIED"),
    "rate_limited": Status(429, "RESOURCE_EXHAUSTED"),
    "model_not_found": Status(404, "NOT_FOUND"),
    "route_not_found": Status(404, "NOT_FOUND"),
    "method_not_allowed": Status(405, "UNIMPLEMENTED"),
    "not_acceptable": Status(406, "INVALID_ARGUMENT"),
    "already_loaded": Status(409, "ALREADY_EXISTS"),
    "too_large": Status(413, "RESOURCE_EXHAUSTED"),
    "unsupported_media_type": Status(415, "INVALID_ARGUMENT"),
    "handler_failed": Status(500, "INTERNAL"),
    "internal": Status(500, "INTERNAL"),
    "model_failed": Status(502, "INTERNAL"),
    "queue_full": Status(503, "UNAVAILABLE"),
    "starting": Status(503, "UNAVAILABLE"),
    "stopping": Status(503, "UNAVAILABLE"),
    "worker_lost": Status(503, "UNAVAILABLE"),
    "model_loading": Status(503, "UNAVAILABLE"),
    "unavailable": Status(503, "UNAVAILABLE"),
    "deadline_exceeded": Status(504, "DEADLINE_EXCEEDED"),
    "no_room": Status(507, "RESOURCE_EXHAUSTED"),
}
"""docs/errors.md has the meaning of each code, and what to do."""


class LightboxError(Exception):
    """Base of the errors in responses. ``code`` is a key of STATUS_OF_CODE."""

    code = "internal"
    log_code: str | None = None
    """The error's name in the log and in metrics, where it is more exact than ``code``."""
    detail = ""
    """A sentence about this machine, or about the user's code, for the log alone."""
    more: Mapping[str, bool | int] = {}
    """Further keys of its JSON body, of a protocol that has some."""

    _own_status: int | None = None

    def __init__(self, message: str) -> None:
        # A caller's text may hold half of a surrogate pair, which no response can hold.
        super().__init__(self._short(message.encode("utf-8", "replace").decode()))

    @staticmethod
    def _short(text: str) -> str:
        return shorten(shorten_echoes(text))

    @property
    def message(self) -> str:
        """One sentence for the caller."""
        return str(self.args[0])

    @property
    def status(self) -> int:
        """HTTP status: as raised, else the code's own."""
        return self._own_status or STATUS_OF_CODE[self.code].http

    @property
    def grpc_status(self) -> str:
        """Name of the gRPC status."""
        return STATUS_OF_CODE[self.code].grpc


class StartError(Exception):
    """Base of the errors that stop a start. The message is for the operator, a line for each problem, no traceback."""


class PortTaken(StartError):
    """A port that the settings name is in use; the message names setting and port."""


class BadRequest(LightboxError):
    """The request cannot be used. A handler may raise it with another status from 400 to 499."""

    code = "bad_request"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        if status is not None and not 400 <= status <= 499:
            raise ValueError(f"BadRequest: status must be from 400 to 499, got {status}")
        self._own_status = status


class HandlerRefused(BadRequest):
    """The user's handler raised a falcon.HTTPError with a 4xx status; the message quotes it in full."""

    _short = staticmethod(shorten)


class UnknownSignature(BadRequest):
    """A model has no signature of this name; ``version`` is the requested version, ``known`` are its signatures."""

    version: int = 0
    known: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: str, version: int, name: str, known: Iterable[str]) -> UnknownSignature:
        """Return the error for a version's signatures; those with two leading underscores are TensorFlow's own."""
        public = tuple(sorted(key for key in known if not key.startswith("__")))
        error = cls(f"signature: the model {model!r} has no signature {name!r}; it has {', '.join(public)}")
        error.version, error.known = version, public
        return error


class ImageUndecodable(BadRequest):
    """The body is not an image, or is truncated or broken."""

    code = "image_undecodable"


class InputMismatch(BadRequest):
    """An input's name, dtype, rank or dimensions differ from the signature's."""

    code = "input_mismatch"


class MalformedBody(BadRequest):
    """The body is not valid JSON, CSV, npy or multipart."""

    code = "malformed_body"


class TooLarge(LightboxError):
    """The request exceeds a limit; the message names the limit and the setting that raises it."""

    code = "too_large"


class ModelNotFound(LightboxError):
    """The model or the version does not exist."""

    code = "model_not_found"


class RouteNotFound(LightboxError):
    """The route does not exist."""

    code = "route_not_found"


class MethodNotAllowed(LightboxError):
    """The route does not take this method; ``allowed`` names its methods, for the Allow header."""

    code = "method_not_allowed"

    def __init__(self, message: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class Unauthenticated(LightboxError):
    """The request has no key, or an unknown one."""

    code = "unauthenticated"


class PermissionDenied(LightboxError):
    """The caller may not use this route; ``caller`` is the caller's name, if known."""

    code = "permission_denied"

    def __init__(self, message: str, caller: str = "") -> None:
        super().__init__(message)
        self.caller = caller


class AlreadyLoaded(LightboxError):
    """A model of this name is already loaded."""

    code = "already_loaded"


class NoRoom(LightboxError):
    """No memory or no slot for one more model, or no space left in TMPDIR."""

    code = "no_room"

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class NotAcceptable(LightboxError):
    """No media type of the Accept header can be written."""

    code = "not_acceptable"


class UnsupportedMediaType(LightboxError):
    """The Content-Type cannot be read."""

    code = "unsupported_media_type"


class Unavailable(LightboxError):
    """The request did not run; it may be sent again after ``retry_after`` seconds."""

    code = "unavailable"
    seconds = 1
    """Default of ``retry_after``."""

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = self.seconds if retry_after is None else retry_after


class QueueFull(Unavailable):
    """As many requests or bytes as are allowed are in progress and waiting."""

    code = "queue_full"


class RateLimited(Unavailable):
    """The caller's key has used its rate, or has as many requests at once as it may.

    ``headers`` are further ones of the response: RateLimit and RateLimit-Policy.
    """

    code = "rate_limited"

    def __init__(self, message: str, retry_after: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, retry_after)
        self.headers = dict(headers or {})


KEY_FULL = "try again: as many requests of this key as it may have at once are in progress and waiting"
SHARE_FULL = "try again: as many requests of this model as are allowed are in progress and waiting"


class Starting(Unavailable):
    """Lightbox or one of its processes is starting."""

    code = "starting"
    seconds = 2


class Stopping(Unavailable):
    """Lightbox is stopping; the next one may be here after this time."""

    code = "stopping"
    seconds = 5


class WorkerLost(Unavailable):
    """The worker ended while it had the request."""

    code = "worker_lost"


class ModelLoading(Unavailable):
    """The model or version is being loaded or unloaded."""

    code = "model_loading"
    seconds = 2


class ModelServerUnreachable(Unavailable):
    """No connection to the model server: the request was never sent and may go to another server."""


class QueueTimeout(Unavailable):
    """The request's deadline passed in the queue; the request did not start."""

    code = "deadline_exceeded"
    log_code = "waited_too_long"


class ClientDisconnected(Unavailable):
    """The client disconnected while its request was in the queue; the request did not start."""

    log_code = "hung_up"


class DeadlineExceeded(LightboxError):
    """The model server did not answer in time."""

    code = "deadline_exceeded"


class LoadTimeout(DeadlineExceeded):
    """A model did not load in time on AWS's own route, whose status for it is 408."""

    _own_status = 408


class OptionsMismatch(LightboxError):
    """The model's options ask for pixels that its input cannot hold."""


class ModelFailed(LightboxError):
    """The model server reports that the model itself failed."""

    code = "model_failed"


class ModelUninitialized(ModelFailed):
    """The model lacks variables or tables that its graph reads: every request fails, whatever the inputs."""


class HandlerFailed(LightboxError):
    """The user's handler raised another exception; ``status`` is set if it has a 5xx status of its own.

    Texts that the handler quotes, such as the model server's response, are not shortened; the whole message is.
    """

    code = "handler_failed"

    _short = staticmethod(shorten)

    def __init__(self, message: str, status: int | None = None, detail: str = "") -> None:
        super().__init__(message)
        self._own_status = status
        self.detail = detail
