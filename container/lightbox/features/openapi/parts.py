"""What operations are made of: parameters, bodies and responses of what this start serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lightbox.codecs import MAYBE_IMAGE_TYPES, SHOWN_TYPES
from lightbox.codecs.base import Writer
from lightbox.codecs.image import ImageBodyCodec
from lightbox.codecs.json_body import JsonCodec, JsonLinesCodec
from lightbox.codecs.multipart import MultipartCodec
from lightbox.core.edge import REQUEST_ID_HEADERS
from lightbox.core.error_bodies import REQUEST_ID_HEADER
from lightbox.core.http import TARGET_MODEL
from lightbox.core.settings import Settings
from lightbox.features.open_inference.rest import TRITON_TYPE
from lightbox.features.openapi import examples, failures
from lightbox.features.openapi.models import DescribedModel
from lightbox.features.openapi.tensors import Schema, any_of
from lightbox.features.sessions.settings import SessionSettings
from lightbox.sagemaker.custom_attributes import CUSTOM_ATTRIBUTES

Operation = dict[str, Any]
JSON = JsonCodec.media_types[0]
BINARY: Schema = {"type": "string", "format": "binary"}
TEXT: Schema = {"type": "string"}
SERVER_TIMING = "Server-Timing"
SESSION_REQUEST, SESSION_STATE = "SessionRequest", "Session"


def ref(name: str, kind: str = "schemas") -> dict[str, str]:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


@dataclass(frozen=True)
class Served:
    """What this start serves: the models that can be asked for now, the default one first."""

    settings: Settings
    models: Sequence[DescribedModel]
    writers: Mapping[str, Writer]

    @property
    def user_code(self) -> bool:
        """Whether a user's code may answer; in multi-model mode it may come with any model."""
        return (not self.settings.has_fixed_models) or any(m.reads_any_body or m.writes_any_body for m in self.models)

    @property
    def any_response(self) -> bool:
        """Whether a user's code may write responses."""
        return (not self.settings.has_fixed_models) or any(model.writes_any_body for model in self.models)

    def responses(self, ok: Mapping[str, Any], codes: Iterable[str], by_user_code: bool = False) -> dict[str, Any]:
        """Return the responses of a route that a worker answers, by status."""
        found = {"200": dict(ok)}
        if by_user_code and self.user_code:
            return found | {status: ref(failures.component_name(status), "responses") for status in ("4XX", "5XX")}
        limited = self.settings.max_connections_per_address or self.settings.max_rate_per_address
        told = failures.statuses({*codes, *(["too_many_requests"] if limited else [])})
        return found | {str(status): ref(failures.component_name(status), "responses") for status in told}


Describe = Callable[[Served, DescribedModel | None], Operation]


class Route(NamedTuple):
    """A route's name and tag, and what describes it."""

    id: str
    tag: str
    describe: Describe


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


REQUEST_IDS = [ref(name, "parameters") for name in REQUEST_ID_HEADERS]


def attributes(served: Served) -> list[dict[str, Any]]:
    """Return SageMaker's headers that choose a model, as parameters."""
    found = [ref(CUSTOM_ATTRIBUTES, "parameters")]
    return [*found, ref(TARGET_MODEL, "parameters")] if (not served.settings.has_fixed_models) else found


def of_sessions(served: Served, names: Iterable[str], kind: str) -> list[dict[str, str]]:
    """Return references to components that sessions alone have, none where sessions are off."""
    return [ref(name, kind) for name in names] if served.settings.of(SessionSettings).sessions else []


def request_content(served: Served) -> dict[str, Any]:
    """Return the media types of /invocations that the models of this start can take."""
    forms = [ref(f"{model.name}.request") for model in served.models]
    bodies = any_of([*forms, *of_sessions(served, [SESSION_REQUEST], "schemas")]) if forms else {}
    images = (not served.settings.has_fixed_models) or any(model.takes_images for model in served.models)
    found: dict[str, Any] = {}
    for media_type in (*SHOWN_TYPES, MAYBE_IMAGE_TYPES[0]):
        of_images = media_type in ("image/*", MAYBE_IMAGE_TYPES[0], *ImageBodyCodec.media_types)
        if media_type == JSON:
            first = served.models[0].default if served.models else None
            found[media_type] = {"schema": bodies} | example(first and examples.invocation(first))
        elif media_type in MultipartCodec.media_types:
            parts = {"type": "object", "additionalProperties": BINARY, "minProperties": 1}
            found |= {media_type: {"schema": parts}} if images else {}
        elif of_images:
            found |= {media_type: {"schema": BINARY}} if images else {}
        elif media_type in (*JsonCodec.media_types, *JsonLinesCodec.media_types, "text/csv"):
            found[media_type] = {"schema": TEXT}
        else:
            found[media_type] = {"schema": BINARY}
    found[TRITON_TYPE] = {"schema": BINARY}
    if any(model.reads_any_body for model in served.models) or (not served.settings.has_fixed_models):
        found["*/*"] = {}
    return found


def response_content(served: Served) -> dict[str, Schema]:
    """Return the media types of responses of /invocations, with schemas."""
    one_output = (not served.settings.has_fixed_models) or any(model.has_one_output for model in served.models)
    found: dict[str, Schema] = {}
    for media_type, codec in served.writers.items():
        if codec.single and not one_output:
            continue
        if media_type == JSON:
            bodies = [ref(f"{model.name}.response") for model in served.models]
            # A Triton container's body is answered with the protocol's JSON, where no output is a blob.
            bodies += [ref(f"{model.name}.infer_response") for model in served.models]
            bodies += of_sessions(served, [SESSION_STATE], "schemas")
            found[media_type] = {} if served.any_response or not served.models else any_of(bodies)
        else:
            is_text = media_type.startswith("text/") or media_type in JsonLinesCodec.media_types
            found[media_type] = TEXT if is_text else BINARY
    found[TRITON_TYPE] = BINARY
    return found | ({"*/*": {}} if served.any_response else {})
