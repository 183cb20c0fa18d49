"""Sessions that keep one image each: decode once, predict many times."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.base.telemetry.logs import log
from lightbox.base.telemetry.metrics import Metric
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from lightbox.core.operations import Description
    from lightbox.core.pipeline import Pipeline
    from lightbox.core.request import Middleware
    from lightbox.core.start import Start
    from lightbox.features.sessions.store import SessionStore
    from lightbox.openapi.models import DescribedModel

OPEN = Metric("gauge", "lightbox_sessions", "Open sessions.")
BYTES = Metric("gauge", "lightbox_session_bytes", "Size of the images of all sessions in bytes.")


class SessionSettings(BaseModel):
    """The variables of sessions."""

    model_config = PART

    sessions: bool = setting("Sessions", "LIGHTBOX_SESSIONS", "SAGEMAKER_ENABLE_STATEFUL_SESSIONS", default=False)
    """Keep the image of a [session](streams.md#sessions) for later requests. At most 1000 sessions, with a quarter of
    `LIGHTBOX_REQUEST_MEMORY_MB`; half of both for one key, without keys for one address. Others get 503."""

    session_seconds: int = setting("Sessions", "SAGEMAKER_SESSIONS_EXPIRATION", default=1200, ge=1, le=86400, unit="s")
    """Lifetime of a session."""


class Sessions(Feature):
    """Answers requests that belong to a session, and keeps their images."""

    name = "sessions"
    modules = (f"{__name__}.requests",)
    settings = SessionSettings
    metrics = (OPEN, BYTES)
    response_headers = ("X-Amzn-SageMaker-New-Session-Id", "X-Amzn-SageMaker-Closed-Session-Id")
    headers: ClassVar[Mapping[str, str]] = {
        "X-Amzn-SageMaker-Session-Id": ("sessions are off: set LIGHTBOX_SESSIONS=true, or leave out the header")
    }

    @override
    def memory(self, settings: Settings) -> int:
        return settings.request_memory_mb // 4 << 20

    @override
    def prepare(self, start: Start) -> None:
        from lightbox.features.sessions.store import FOLDER

        size = self.memory(start.settings)
        place = start.run_dir.make_folder_in_memory(FOLDER, size)
        log(f"sessions: at most {size >> 20} MiB of images in {place}")

    @override
    def tasks(self, start: Start) -> Iterable[Coroutine[Any, Any, None]]:
        from lightbox.features.sessions.cleaner import expire_sessions

        yield expire_sessions(self._store(start.settings, start.run_dir.path))

    @override
    def measure(self, run_dir: Path) -> Mapping[Metric, float]:
        from lightbox.features.sessions.store import FOLDER, SessionStore

        return dict(zip((OPEN, BYTES), SessionStore(run_dir / FOLDER, 0, 0, 0).usage(), strict=True))

    @override
    def around(self, settings: Settings, run_dir: Path, pipeline: Pipeline) -> Iterable[Middleware]:
        from lightbox.features.sessions.requests import SessionRequests

        yield SessionRequests(self._store(settings, run_dir))

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.core.operations import JSON, Description, header
        from lightbox.features.sessions.requests import CLOSED_HEADER, NEW_HEADER, SESSION
        from lightbox.features.sessions.store import CLOSE, NEW
        from lightbox.openapi.schemas import TEXT, ref, struct

        return Description(
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
            without_body="With a session's id: empty, to predict with the image of the session.",
        )

    def _store(self, settings: Settings, run_dir: Path) -> SessionStore:
        from lightbox.features.sessions.store import FOLDER, MAX_SESSIONS, SessionStore

        seconds = settings.of(SessionSettings).session_seconds
        return SessionStore(run_dir / FOLDER, seconds, MAX_SESSIONS, self.memory(settings))
