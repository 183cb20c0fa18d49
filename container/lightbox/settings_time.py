"""The settings of time: how long a start, a request and a stop may take; docs/handlers.md has the rule for requests."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from lightbox.settings_front import FrontSettings

BATCH_TIMEOUT = 600.0
"""Seconds that SageMaker's batch transform waits for an answer, unless the job says otherwise."""

HANDLER_SECONDS = 60.0
"""Seconds that AWS's container lets a handler take; SageMaker waits as long for an answer of an endpoint."""

CALL_SECONDS = 60
"""Seconds that AWS's container gives a call of the model server, and tells handlers."""

LOAD_SECONDS = 60.0
"""Seconds that SageMaker waits for a model to be loaded; a request of callers may be allowed less."""


class TimeSettings(FrontSettings):
    """The second part of ``settings.Settings``."""

    batch: bool = Field(False, validation_alias="SAGEMAKER_BATCH")
    """Set by SageMaker for batch transform: nobody waits at the other end, so requests get more time and the model
    server's queue has no limit, unless the settings for these say otherwise."""

    request_timeout: float = Field(
        default_factory=lambda given: BATCH_TIMEOUT if given.get("batch") else 30.0,
        gt=0,
        le=3600,
        validation_alias=AliasChoices("LIGHTBOX_REQUEST_TIMEOUT_SECONDS", "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS"),
    )
    """Seconds a request may take before it is answered with 504: 30, 60 where an `inference.py` answers, and 600 in
    batch transform, unless set. The timeouts of gunicorn and nginx are derived from it, each longer than the one inside
    it. In multi-model mode loading and unloading a model may take 60 s, if that is more."""

    proxy_read_timeout: float | None = Field(
        None, gt=0, le=7200, validation_alias="SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS"
    )
    """Seconds nginx waits for an answer: 10 more than a request may take, unless set. Where a request timeout is set
    and as long or longer, this one does not count. Set alone, it bounds requests too: an `inference.py` may take a
    second less, other requests as much, but no more than without it."""

    wait_seconds: float | None = Field(None, gt=0, le=86400, validation_alias="SAGEMAKER_TFS_WAIT_TIME_SECONDS")
    """Seconds that the models may take to become ready at start before the start is given up; without it, no limit.
    Handlers of AWS's API get it as `context.timeout`, 60 without it. Where it is set, loading a model in multi-model
    mode and what a pair of handlers asks the model may take as long."""

    drain_seconds: float = Field(30.0, ge=0, le=3600, validation_alias="LIGHTBOX_DRAIN_SECONDS")
    """Seconds that accepted requests have to finish after SIGTERM."""

    @property
    def deadline_seconds(self) -> float:
        """Seconds from a request's arrival until it is answered with 504, where the built-in handling answers."""
        return min(self.request_timeout, self.handler_seconds)

    @property
    def handler_seconds(self) -> float:
        """The same where an inference.py answers. The timeouts of gunicorn, nginx and the model server follow it."""
        # As in AWS's container, the longer one counts where both are set.
        if "request_timeout" in self.model_fields_set:
            return self.request_timeout
        if self.proxy_read_timeout is None:
            return max(HANDLER_SECONDS, self.request_timeout)
        return max(self.proxy_read_timeout - 1, self.proxy_read_timeout / 2)

    @property
    def call_seconds(self) -> int:
        """Seconds that handlers of AWS's API should give a call of the model server."""
        return max(1, int(self.wait_seconds or CALL_SECONDS))

    @property
    def load_seconds(self) -> float:
        """Seconds that loading or unloading a model may take in multi-model mode."""
        return self.wait_seconds or max(LOAD_SECONDS, self.deadline_seconds)

    @property
    def nginx_load_read_timeout(self) -> int:
        """Seconds after which nginx gives up on a model that is loaded or unloaded."""
        return max(self.nginx_read_timeout, int(self.load_seconds + 10))

    @property
    def last_seconds(self) -> float:
        """Seconds at the end of ``drain_seconds`` in which who has not finished is stopped all the same."""
        return min(1.5, 0.3 * self.drain_seconds)

    @property
    def gunicorn_timeout(self) -> int:
        """Seconds after which gunicorn replaces a worker that gives no sign of life."""
        return int(self.handler_seconds) + 5

    @property
    def nginx_read_timeout(self) -> int:
        """Seconds after which nginx gives up on gunicorn."""
        given = int(self.proxy_read_timeout or 0)
        return given if given > self.handler_seconds else int(self.handler_seconds + 10)
