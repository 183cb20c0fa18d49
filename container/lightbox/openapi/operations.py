"""Operations, what they are made of, and what a feature adds to the document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lightbox.codecs.base import Reader, Writer
from lightbox.core.edge import REQUEST_ID_HEADERS
from lightbox.core.error_bodies import REQUEST_ID_HEADER
from lightbox.core.settings import Settings
from lightbox.model.layout import LONGEST_NAME
from lightbox.openapi import failures
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import TEXT, Schema, ref

Operation = dict[str, Any]
JSON = "application/json"
SERVER_TIMING = "Server-Timing"
BODY = "May have a Content-Encoding: gzip or deflate."
REQUEST_IDS = [ref(name, "parameters") for name in REQUEST_ID_HEADERS]
MODEL_NAME: Schema = {"type": "string", "pattern": f"^[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$"}


class Route(NamedTuple):
    """A route's name and tag, and what describes it."""

    id: str
    tag: str
    describe: Describe
    by_model: bool = False
    """There is a path for each model, in place of ``<model>``; in multi-model mode one with it, too."""
    changes_models: bool = False
    """With fixed models it refuses every request, and is not described."""


Routes = Mapping[tuple[str, str], Route]
"""By method and rule, the path as Flask writes it."""


@dataclass(frozen=True)
class Description:
    """What SageMaker's API, or a feature, adds to the document: routes, schemas, and parts of SageMaker's operations.

    ``routes`` are of workers; ``front`` are those that the supervisor answers, beside them.
    """

    routes: Routes = field(default_factory=dict)
    front: Routes = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """What operations refer to, by name."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Headers that SageMaker's routes take, by name."""
    headers: Mapping[str, Any] = field(default_factory=dict)
    """Headers that their responses may have, by name."""
    requests: Mapping[str, Sequence[Schema]] = field(default_factory=dict)
    """Forms of their requests beside those of the codecs, by media type."""
    responses: Mapping[str, Sequence[Schema]] = field(default_factory=dict)
    """Forms of their responses beside those of the codecs, by media type."""
    without_body: str = ""
    """What a request to them without a body asks for; "" where there is no such request."""


@dataclass(frozen=True)
class Served:
    """What this start serves: the models that can be asked for now, the default one first."""

    settings: Settings
    models: Sequence[DescribedModel]
    readers: Sequence[Reader]
    writers: Mapping[str, Writer]
    descriptions: Sequence[Description] = ()

    @property
    def any_model(self) -> bool:
        """Whether models that nobody knows yet may come."""
        return not self.settings.has_fixed_models

    @property
    def user_code(self) -> bool:
        """Whether a user's code may answer; in multi-model mode it may come with any model."""
        return self.any_model or any(m.reads_any_body or m.writes_any_body for m in self.models)

    @property
    def any_response(self) -> bool:
        """Whether a user's code may write responses."""
        return self.any_model or any(model.writes_any_body for model in self.models)

    def responses(self, ok: Mapping[str, Any], codes: Iterable[str], by_user_code: bool = False) -> dict[str, Any]:
        """Return the responses of a route that a worker answers, by status."""
        found = {"200": dict(ok)}
        if by_user_code and self.user_code:
            return found | {status: ref(failures.component_name(status), "responses") for status in ("4XX", "5XX")}
        told = failures.statuses(set(codes))
        return found | {str(status): ref(failures.component_name(status), "responses") for status in told}


Describe = Callable[[Served, DescribedModel | None], Operation]


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


def path_parameter(name: str, text: str, schema: Schema | None = None) -> dict[str, Any]:
    """Return a part of a path; it is neither empty nor has it a slash."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": text,
        "schema": schema or {"type": "string", "pattern": "^[^/]+$"},
    }


def example(value: Any) -> dict[str, Any]:
    """Return the part of a media type that shows an example, nothing for None."""
    return {} if value is None else {"example": value}


def get(summary: str, text: str, schema: Schema, codes: Iterable[str] = failures.ANYWHERE) -> Describe:
    """Return what describes a GET that is answered with JSON."""

    def describe(served: Served, _: DescribedModel | None) -> Operation:
        responses = served.responses(response(text, {JSON: schema}), codes)
        return {"summary": summary, "parameters": [*REQUEST_IDS], "responses": responses}

    return describe


def front(summary: str, ok: Mapping[str, Schema], failed: str | None) -> Describe:
    """Return what describes a route that the supervisor answers; ``failed`` is the schema of a 503."""

    def describe(served: Served, _: DescribedModel | None) -> Operation:
        responses = {"200": response("Yes." if failed else "As it is now.", ok, by_worker=False)}
        if failed:
            not_ready = response("Not yet, or not any more.", {JSON: ref(failed)}, by_worker=False)
            not_ready["headers"]["Retry-After"] = ref("Retry-After", "headers")
            responses["503"] = not_ready
        for status in failures.statuses({"bad_request", "too_large", *(() if failed else ("unavailable",))}):
            responses.setdefault(str(status), ref(failures.component_name(status), "responses"))
        return {"summary": summary, "parameters": [*REQUEST_IDS], "responses": responses}

    return describe


def changed(summary: str, schema: Schema) -> Describe:
    """Return what describes the load or unload of a model that the path names."""

    def describe(served: Served, _: DescribedModel | None) -> Operation:
        ok = response("Done.", {JSON: schema})
        return {"summary": summary, "parameters": [*REQUEST_IDS], "responses": served.responses(ok, failures.OF_A_LOAD)}

    return describe
