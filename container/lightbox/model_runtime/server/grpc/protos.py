"""Messages of the server's configuration files, which are text protos; ``make protos`` writes their descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import message_factory

from lightbox.model_runtime.wire.descriptors import read_pool

_POOL = read_pool(Path(__file__).with_name("configuration.binpb"))


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"tensorflow.serving.{name}"))


BatchingParameters = _message("BatchingParameters")
MonitoringConfig = _message("MonitoringConfig")
SSLConfig = _message("SSLConfig")
