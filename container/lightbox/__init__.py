"""The sidecar: takes an image over HTTP, prepares it, calls the model server, answers.

For the user's code: ``from lightbox import BadRequest, Request``.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from lightbox.base.errors import BadRequest, LightboxError, Unavailable

if TYPE_CHECKING:
    from lightbox.user_code.aws import Context
    from lightbox.user_code.handlers import Request

# OpenVINO works without this package; with it, OpenVINO reports each import to third parties. None makes the import
# system treat it as missing, in all processes of Lightbox.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
# Since 1.29 ONNX Runtime's wheels send the names and hashes of models to Microsoft, and keep an identifier of the
# machine in the user's cache. It reads this on its first import; a value set by the user has precedence.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
"""Of the package, of the images and of the chart."""

__all__ = ["BadRequest", "Context", "LightboxError", "Model", "Request", "Unavailable", "load"]


_LATE = {
    "Context": "lightbox.user_code.aws",
    "Request": "lightbox.user_code.handlers",
    **dict.fromkeys(("Model", "load", "ray"), "lightbox.tools.offline"),
}
"""Imported on first use, as they take longer than errors."""


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'lightbox' has no attribute {name!r}")
    module = importlib.import_module(_LATE[name])
    return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{module.__name__}.{name}")
