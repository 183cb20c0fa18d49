"""What sessions add to SageMaker's routes in OpenAPI."""

from __future__ import annotations

from lightbox.features.sessions.requests import CLOSED_HEADER, NEW_HEADER, SESSION
from lightbox.features.sessions.store import CLOSE, NEW
from lightbox.openapi.operations import JSON, Description, header
from lightbox.openapi.schemas import TEXT, ref, struct

DESCRIPTION = Description(
    schemas={
        "SessionRequest": struct({"requestType": {"enum": [NEW, CLOSE]}}),
        "Session": struct({"session": TEXT}),
    },
    parameters={SESSION: header(SESSION, f"The id of a session, or {NEW} to open one.", example=NEW)},
    headers={
        NEW_HEADER: {"description": "The id of the session that was opened; Expires=<UTC>.", "schema": TEXT},
        CLOSED_HEADER: {"description": "The id of the session that was closed.", "schema": TEXT},
    },
    requests={JSON: [ref("SessionRequest")]},
    responses={JSON: [ref("Session")]},
    without_body="With a session's id: empty, to ask about the image that the session keeps.",
)
