"""Descriptions of routes: the decorators of their views, and the features' additions to those that predict with a body.

The docstring of a view is the summary of its operation, the name of its endpoint the id, that of its blueprint the tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from lightbox.base.errors import STATUS_OF_CODE
from lightbox.base.request_context import REQUEST_ID_HEADER, REQUEST_ID_HEADERS
from lightbox.base.settings import Settings
from lightbox.codecs import MAYBE_IMAGE_TYPES
from lightbox.codecs.base import Reader, Writer
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, KNOWN_PAIRS
from lightbox.core.edge import MODEL_HEADER
from lightbox.model_files.layout import LONGEST_NAME
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import BINARY, TEXT, Schema, any_of, ref

Operation = dict[str, Any]
JSON = "application/json"
SERVER_TIMING = "Server-Timing"
BODY = "May have a Content-Encoding: gzip or deflate."
REQUEST_IDS = [ref(name, "parameters") for name in REQUEST_ID_HEADERS]
MODEL_NAME: Schema = {"type": "string", "pattern": f"^[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$"}

ANYWHERE = frozenset({"bad_request", "too_large", "internal", "unavailable", "deadline_exceeded", "no_room"})
"""Error codes of every route that a worker answers; nginx has some of them, too."""
OF_A_MODEL = ANYWHERE | {"model_not_found"}
OF_A_LOAD = OF_A_MODEL | {"already_loaded", "malformed_body", "handler_failed"}
OF_A_PREDICTION = OF_A_MODEL | {
    "image_undecodable",
    "input_mismatch",
    "malformed_body",
    "unsupported_media_type",
    "not_acceptable",
    "model_failed",
}
_OF_NGINX = (403, 414, 431)
"""Its refusals of callers without a certificate, and of long lines."""

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True)
class Description:
    """Additions of SageMaker's API, or a feature, to the document beside its routes, and to SageMaker's operations."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """Schemas that operations refer to, by name."""
    probes: Mapping[str, Callable[[bool], Mapping[str, bool | str]]] = field(default_factory=dict)
    """Responses of the supervisor, by path: the docstring of each is its summary."""
    tag: str = ""
    """That of the probes."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Headers that SageMaker's routes take, by name."""
    headers: Mapping[str, Any] = field(default_factory=dict)
    """Headers that their responses may have, by name."""
    requests: Mapping[str, Sequence[Schema]] = field(default_factory=dict)
    """Forms of their requests beside those of the codecs, by media type."""
    responses: Mapping[str, Sequence[Schema]] = field(default_factory=dict)
    """Forms of their responses beside those of the codecs, by media type."""
    security: Mapping[str, Schema] = field(default_factory=dict)
    """Ways to authenticate, by name; any one is enough. Without one no caller is authenticated."""
    without_body: str = ""
    """The meaning of a request without a body; "" if there is none."""


@dataclass(frozen=True)
class Served:
    """The content of this start: the models that answer now, the default one first."""

    settings: Settings
    models: Sequence[DescribedModel]
    readers: Sequence[Reader]
    writers: Mapping[str, Writer]
    descriptions: Sequence[Description] = ()

    @property
    def any_model(self) -> bool:
        """Whether further models may be loaded."""
        return not self.settings.has_fixed_models

    @property
    def any_request(self) -> bool:
        """Whether a user's code may read requests; in multi-model mode it may come with any model."""
        return self.any_model or any(model.reads_any_body for model in self.models)

    @property
    def any_response(self) -> bool:
        """Whether a user's code may write responses."""
        return self.any_model or any(model.writes_any_body for model in self.models)

    def prediction(self, ok: Mapping[str, Any]) -> dict[str, Any]:
        """Return the responses of a prediction by status, ``ok`` for 200. A user's code may refuse as it likes."""
        by_user_code = self.any_request or self.any_response
        failed = _errors(("4XX", "5XX")) if by_user_code else errors(OF_A_PREDICTION)
        return {"200": dict(ok), **failed}


Describe = Callable[[Served, DescribedModel | None], Operation]


class Described(NamedTuple):
    """A view's description. ``describe`` returns its operation without summary, id, tag and parts of the path.

    With ``by_model`` there is a path for each model in place of ``<model>``, and in multi-model mode one with it, too.
    With fixed models a route that ``changes_models`` refuses every request, and is not in the document.
    """

    describe: Describe
    summary: str
    by_model: bool
    changes_models: bool


def described(
    describe: Describe, summary: str = "", by_model: bool = False, changes_models: bool = False
) -> Callable[[View], View]:
    """Return a decorator for a view; ``summary`` replaces its docstring."""

    def decorate(view: View) -> View:
        sentence = (summary or view.__doc__ or "").rstrip(".")
        vars(view)["described"] = Described(describe, sentence, by_model, changes_models)
        return view

    return decorate


def json_operation(
    schema: Schema | str,
    codes: Iterable[str | int] = ANYWHERE,
    body: Schema | str | None = None,
    is_body_required: bool = True,
    parameters: Sequence[Any] = (),
) -> Describe:
    """Return the description of a route that returns JSON and may take JSON; a text is the name of a schema."""
    operation: Operation = {
        "parameters": [*parameters, *REQUEST_IDS],
        "responses": {"200": response("The response.", {JSON: _schema(schema)}), **errors(codes)},
    }
    if body is not None:
        operation["requestBody"] = {"required": is_body_required, "content": {JSON: {"schema": _schema(body)}}}
    return lambda served, model: operation


def errors(codes: Iterable[str | int]) -> dict[str, Any]:
    """Return the responses of error codes, or of statuses, and those that nginx may give to any request."""
    return _errors(
        sorted({code if isinstance(code, int) else STATUS_OF_CODE[code].http for code in codes}.union(_OF_NGINX))
    )


def _errors(statuses: Iterable[int | str]) -> dict[str, Any]:
    return {str(status): ref(f"Error{status}", "responses") for status in statuses}


def _schema(named: Schema | str) -> Schema:
    return ref(named) if isinstance(named, str) else named


def response(text: str, content: Mapping[str, Schema], by_worker: bool = True) -> dict[str, Any]:
    """Return a response with a schema for each media type."""
    always = (REQUEST_ID_HEADER, SERVER_TIMING) if by_worker else (REQUEST_ID_HEADER,)
    found: dict[str, Any] = {"description": text, "headers": {name: ref(name, "headers") for name in always}}
    if content:
        found["content"] = {media_type: {"schema": schema} for media_type, schema in content.items()}
    return found


def header(name: str, text: str, schema: Schema | None = None, **more: Any) -> dict[str, Any]:
    """Return a header that a request may have."""
    return {"name": name, "in": "header", "description": text, "schema": schema or TEXT, **more}


def custom_attributes(served: Served) -> dict[str, Any]:
    """Return the header that chooses model and options."""
    about = f"Pairs of name=value, separated by commas. Lightbox reads {', '.join(KNOWN_PAIRS)}."
    named: dict[str, Any] = {"example": f"tfs-model-name={served.models[0].name}"} if served.models else {}
    return header(CUSTOM_ATTRIBUTES, about, **named)


def path_parameter(name: str, text: str, schema: Schema | None = None) -> dict[str, Any]:
    """Return a part of a path; it is neither empty nor has it a slash."""
    part = schema or {"type": "string", "pattern": "^[^/]+$"}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": part}


def example(value: Any) -> dict[str, Any]:
    """Return the part of a media type that shows an example, nothing for None."""
    return {} if value is None else {"example": value}


def invocation(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of a route that predicts with any body and any form of response."""
    served = served if model is None else replace(served, models=[model])
    ok = response("The predictions.", _response_content(served))
    ok["headers"] |= {name: {"schema": TEXT} for writer in served.writers.values() for name in writer.headers}
    return prediction(served, ok)


def prediction(served: Served, ok: Operation) -> Operation:
    """Return the operation of a prediction of a body, ``ok`` for 200, with the features' additions."""
    added = served.descriptions
    headers = [name for description in added for name in description.headers]
    ok["headers"] |= {name: ref(name, "headers") for name in (*headers, MODEL_HEADER)}
    parameters = [name for description in added for name in description.parameters]
    without_body = [description.without_body for description in added if description.without_body]
    return {
        "parameters": [ref(name, "parameters") for name in (CUSTOM_ATTRIBUTES, *parameters)] + REQUEST_IDS,
        "requestBody": {
            "required": not without_body,
            "content": _request_content(served),
            "description": " ".join([BODY, *without_body]),
        },
        "responses": served.prediction(ok),
    }


def _request_content(served: Served) -> dict[str, Any]:
    """Return the media types of requests that the models of this start can take."""
    images = served.any_model or any(one.image is not None for model in served.models for one in model.signatures)
    forms: dict[str, Sequence[Schema]] = {}
    shown: dict[str, Any] = {}
    for codec in served.readers:
        if images or not codec.of_images:
            forms |= dict.fromkeys(codec.media_types, codec.request_schemas(served.models))
            shown |= dict.fromkeys(codec.media_types, codec.example(served.models[0]) if served.models else None)
    if images:
        forms[MAYBE_IMAGE_TYPES[0]] = [BINARY]
    content = _with_added(forms, [description.requests for description in served.descriptions])
    found = {name: {"schema": schema} | example(shown.get(name)) for name, schema in content.items()}
    return found | ({"*/*": {}} if served.any_request else {})


def _response_content(served: Served) -> dict[str, Schema]:
    """Return the media types of responses, with schemas."""
    one_output = served.any_model or any(model.has_one_output for model in served.models)
    models = [] if served.any_response else served.models
    forms = {
        media_type: codec.response_schemas(models)
        for media_type, codec in served.writers.items()
        if one_output or not codec.single
    }
    content = _with_added(forms, [description.responses for description in served.descriptions])
    return content | ({"*/*": {}} if served.any_response else {})


def _with_added(
    forms: Mapping[str, Sequence[Schema]], added: Sequence[Mapping[str, Sequence[Schema]]]
) -> dict[str, Schema]:
    """Return a schema for each media type; an empty schema for types without forms of their own."""
    result = {media_type: [*schemas] for media_type, schemas in forms.items()}
    for more in added:
        for media_type, schemas in more.items():
            if media_type not in forms or forms[media_type]:
                result.setdefault(media_type, []).extend(schemas)
    return {media_type: any_of(schemas) for media_type, schemas in result.items()}
