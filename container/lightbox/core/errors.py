"""The exception tree, and the one table from error code to HTTP and gRPC status.

    LightboxError
    ├── BadRequest            the caller sent something that cannot be used; handlers may raise it
    │   ├── HandlerRefused    its falcon.HTTPError
    │   ├── ImageUndecodable
    │   ├── UnknownSignature
    │   ├── UnknownSession    defined beside the sessions
    │   ├── LoadFailed        of a model's version, defined beside the transition
    │   ├── InputMismatch     name, dtype, rank or dimensions differ from the model's signature
    │   └── MalformedBody
    ├── TooLarge              bytes, pixels or frames beyond a limit
    │   └── TooLargeMessage   of a stream of gRPC, which goes on
    ├── ModelNotFound
    ├── AlreadyLoaded         a duplicate load, which changes nothing
    ├── NoRoom
    ├── RouteNotFound
    ├── MethodNotAllowed
    ├── Unimplemented         a call of gRPC that no method takes
    ├── Unauthenticated
    ├── PermissionDenied
    ├── NotAcceptable
    ├── UnsupportedMediaType
    ├── Unavailable           try again later: the model is loading, its server is down, the queue is full
    │   ├── ModelServerUnreachable never sent, for want of a connection
    │   ├── QueueTimeout      its deadline passed before its turn came
    │   └── ClientDisconnected its caller was gone before its turn came
    ├── DeadlineExceeded
    │   └── LoadTimeout       of POST /models, 408
    ├── OptionsMismatch       the model's options ask for pixels that its input cannot hold
    ├── ModelFailed           the model server ran the model and it failed
    │   └── ModelUninitialized  at any input: variables or tables of its own are missing
    ├── ModelServerError      passed on with the model server's own status and words
    └── HandlerFailed         the user's code raised something that is not one of these

    StartError                what ends a start with sentences for the operator; each is where it is raised
    ├── SettingsError · ModelLayoutError · ModelOptionsError · ModelFileError · UserCodeError
    ├── ModelServerMissing · NoLocalWire · NginxMissing · TracingMissing · PortTaken · RunDirError
    ├── TlsError · KeysUnusable · BrokenArchive
    └── StartRefused · ChildFailed

Messages are whole sentences: which field, what was expected, what came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightbox.core.error_texts import shorten, shorten_echoes


@dataclass(frozen=True)
class Status:
    """How one error code is told to callers: an HTTP status and a gRPC status name."""

    http: int
    grpc: str


STATUS_OF_CODE: dict[str, Status] = {
    "bad_request": Status(400, "INVALID_ARGUMENT"),
    "image_undecodable": Status(400, "INVALID_ARGUMENT"),
    "input_mismatch": Status(400, "INVALID_ARGUMENT"),
    "malformed_body": Status(400, "INVALID_ARGUMENT"),
    "unknown_session": Status(400, "INVALID_ARGUMENT"),
    "too_large": Status(413, "RESOURCE_EXHAUSTED"),
    "model_not_found": Status(404, "NOT_FOUND"),
    "route_not_found": Status(404, "NOT_FOUND"),
    "method_not_allowed": Status(405, "UNIMPLEMENTED"),
    "unauthenticated": Status(401, "UNAUTHENTICATED"),
    "permission_denied": Status(403, "PERMISSION_DENIED"),
    "already_loaded": Status(409, "ALREADY_EXISTS"),
    "no_room": Status(507, "RESOURCE_EXHAUSTED"),
    "not_acceptable": Status(406, "INVALID_ARGUMENT"),
    "unsupported_media_type": Status(415, "INVALID_ARGUMENT"),
    "unavailable": Status(503, "UNAVAILABLE"),
    "deadline_exceeded": Status(504, "DEADLINE_EXCEEDED"),
    "model_failed": Status(502, "INTERNAL"),
    "handler_failed": Status(500, "INTERNAL"),
    "internal": Status(500, "INTERNAL"),
}


class LightboxError(Exception):
    """Base of every error that Lightbox answers with. ``code`` is a key of STATUS_OF_CODE."""

    code = "internal"
    log_code: str | None = None
    """What the request's log line and the metrics call it, where that says more than ``code``."""

    def __init__(self, message: str) -> None:
        # Half of a surrogate pair may come from a caller's text; it could not be answered.
        super().__init__(self._short(message.encode("utf-8", "replace").decode()))

    @staticmethod
    def _short(message: str) -> str:
        return shorten(shorten_echoes(message))

    @property
    def message(self) -> str:
        """One sentence for the caller."""
        return str(self.args[0])

    @property
    def status(self) -> int:
        """HTTP status."""
        return STATUS_OF_CODE[self.code].http

    @property
    def grpc_status(self) -> str:
        """Name of the gRPC status."""
        return STATUS_OF_CODE[self.code].grpc


class StartError(Exception):
    """Base of what stops a start: its message is for the operator, a line for each problem, without a traceback."""


class BadRequest(LightboxError):
    """The request cannot be used as it is. A handler may raise it with another status from 400 to 499."""

    code = "bad_request"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        if status is not None and not 400 <= status <= 499:
            raise ValueError(f"BadRequest: status must be from 400 to 499, got {status}")
        self._status = status

    @property
    def status(self) -> int:
        """HTTP status: as raised, else the code's own."""
        return self._status or super().status


class HandlerRefused(BadRequest):
    """The user's handler raised a falcon.HTTPError of the 4xx; what it quotes is not shortened."""

    @staticmethod
    def _short(message: str) -> str:
        return shorten(message)


class UnknownSignature(BadRequest):
    """A model has no signature of the name; ``version`` is the one that was asked, ``known`` are its signatures."""

    version: int = 0
    known: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: str, version: int, name: str, known: Iterable[str]) -> UnknownSignature:
        """Return the error for a version's signatures; those that begin with two underscores are TensorFlow's own."""
        public = tuple(sorted(key for key in known if not key.startswith("__")))
        error = cls(f"signature: the model {model!r} has no signature {name!r}; it has {', '.join(public)}")
        error.version, error.known = version, public
        return error


class ImageUndecodable(BadRequest):
    """The body is no image, or is truncated or broken."""

    code = "image_undecodable"


class InputMismatch(BadRequest):
    """An input's name, dtype, rank or dimensions differ from what the signature wants."""

    code = "input_mismatch"


class MalformedBody(BadRequest):
    """JSON, CSV, npy or multipart that cannot be parsed."""

    code = "malformed_body"


class TooLarge(LightboxError):
    """A limit was passed; the message names the limit and the setting that moves it."""

    code = "too_large"


class ModelNotFound(LightboxError):
    """No such model or version."""

    code = "model_not_found"


class RouteNotFound(LightboxError):
    """No such route."""

    code = "route_not_found"


class MethodNotAllowed(LightboxError):
    """The route exists, the method does not; ``allowed`` names those that do, for the Allow header."""

    code = "method_not_allowed"

    def __init__(self, message: str, allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class Unauthenticated(LightboxError):
    """The request has no key, or one that nobody knows."""

    code = "unauthenticated"


class PermissionDenied(LightboxError):
    """This is not for who asks; ``caller`` is their name, where it is known."""

    code = "permission_denied"

    def __init__(self, message: str, caller: str = "") -> None:
        super().__init__(message)
        self.caller = caller


class AlreadyLoaded(LightboxError):
    """A model of this name is loaded."""

    code = "already_loaded"


class NoRoom(LightboxError):
    """There is no memory or no place for one more model, or no space in TMPDIR for what must be written there."""

    code = "no_room"


class NotAcceptable(LightboxError):
    """Nothing that the Accept header allows can be served."""

    code = "not_acceptable"


class UnsupportedMediaType(LightboxError):
    """The Content-Type is not one that can be read."""

    code = "unsupported_media_type"


class Unavailable(LightboxError):
    """The request did not run and may be sent again after ``retry_after`` seconds."""

    code = "unavailable"

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelServerUnreachable(Unavailable):
    """No connection to the model server could be made: the request was never sent and may be sent elsewhere."""


class QueueTimeout(Unavailable):
    """The request's deadline passed while it waited for its turn; it was not begun."""

    code = "deadline_exceeded"
    log_code = "waited_too_long"


class ClientDisconnected(Unavailable):
    """The caller had hung up before the request's turn came; it was not begun."""

    log_code = "hung_up"


class DeadlineExceeded(LightboxError):
    """The model server did not answer in time."""

    code = "deadline_exceeded"


class LoadTimeout(DeadlineExceeded):
    """A model was not ready in time on AWS's own route, which says 408 for it."""

    @property
    def status(self) -> int:
        """HTTP status."""
        return 408


class OptionsMismatch(LightboxError):
    """The model's options ask for pixels that its input cannot hold."""


class ModelFailed(LightboxError):
    """The model server answered that the model itself failed."""

    code = "model_failed"


class ModelUninitialized(ModelFailed):
    """The model lacks variables or tables that its graph reads: it answers no request, whatever the inputs."""


class HandlerFailed(LightboxError):
    """The user's handler raised something that is not a LightboxError; with a status where that has one of the 5xx.

    What the handler quotes, such as the model server's answer, is not shortened: only the whole message is.
    """

    code = "handler_failed"

    @staticmethod
    def _short(message: str) -> str:
        return shorten(message)

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self._status = status

    @property
    def status(self) -> int:
        """HTTP status: as given, else the code's own."""
        return self._status or super().status
