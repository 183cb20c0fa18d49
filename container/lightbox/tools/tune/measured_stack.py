"""The measured stacks: like the service, except for logs, reports and stops."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lightbox.tools.harness.server_process import ServerFailed
from lightbox.tools.harness.stack import Stack

STOP_SECONDS = 60.0
"""A stack that is stopped takes a second, and more on a busy machine; one that is killed leaves its files behind."""
LOG_BYTES = 1 << 20
_SUPERVISOR = "[lightbox] "
_REFUSED = f"{_SUPERVISOR}cannot start:"
_STOPPING, _KILLED = "stopping: accepted requests finish first", "did not stop in time and is killed"

OWN_SETTINGS = {
    "LIGHTBOX_LOG_FORMAT": "text",
    "LIGHTBOX_DRAIN_SECONDS": "1",
    # On a GPU the stacks share its memory instead of each taking all of it.
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
"""The settings of a measured stack that do not affect its responses."""

UNWANTED = (
    "SAGEMAKER_MULTI_MODEL",
    "LIGHTBOX_KSERVE_GRPC_PORT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "LIGHTBOX_TLS_CERT",
    "LIGHTBOX_TLS_KEY",
    "LIGHTBOX_TLS_CLIENT_CA",
    "LIGHTBOX_HOSTS",
)
"""Settings of the service that would take its ports, report made-up requests as its own, or ask for TLS or its name."""


def start(settings: Mapping[str, str]) -> Stack:
    """Start a stack with these settings over those of this process."""
    present = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return Stack(OWN_SETTINGS | dict(settings), present, ends_with_parent=True)


def reason(error: ServerFailed) -> str:
    """Return why a start was refused or given up, which the supervisor says last, in one sentence."""
    if not error.ended:
        return error.reason
    lines = error.log.splitlines()
    refused = next((number for number, line in enumerate(lines, start=1) if line.endswith(_REFUSED)), None)
    if refused:
        reasons = lines[refused:]
    else:
        said = [text for _, process, text in (line.partition(_SUPERVISOR) for line in lines) if process]
        after = said[said.index(_STOPPING) + 1 :] if _STOPPING in said else said
        reasons = [line for line in after if not line.endswith(_KILLED)]
    return " ".join(reasons) or error.reason
