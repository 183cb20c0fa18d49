"""``ModelServerConfig``: reading the file, and the checks of every configuration."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import TypeAlias, TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from lightbox.model_runtime.wire.messages import model_server_config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

ModelConfig: TypeAlias = model_server_config_pb2.ModelConfig
ModelServerConfig: TypeAlias = model_server_config_pb2.ModelServerConfig
MessageType = TypeVar("MessageType", bound=Message)

PLATFORM = "tensorflow"


def read_text_proto(path: str, message: MessageType) -> MessageType:
    """Fill ``message`` from a text file; raise StatusError with tensorflow_model_server's texts."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise StatusError(Code.NOT_FOUND, f"{path}; {error.strerror}") from None
    if not text:
        raise invalid(f"{path}; Invalid argument")
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        kind = message.DESCRIPTOR.full_name
        what = re.sub(r"^\d+:\d+ : ", "", str(error))
        place = f"{error.GetLine()}:{error.GetColumn()}"
        print(f"Error parsing text-format {kind}: {place}: {what}", file=sys.stderr, flush=True)
        raise invalid(f"Invalid protobuf file: '{path}'") from None
    return message


def read_config(path: str) -> ModelServerConfig:
    """Return the configuration in a text file; raise StatusError if it cannot be read or parsed."""
    return read_text_proto(path, ModelServerConfig())


def single_model(name: str, base_path: str) -> ModelServerConfig:
    """Return the configuration of ``--model_name`` and ``--model_base_path``."""
    config = ModelServerConfig()
    config.model_config_list.config.add(name=name, base_path=base_path, model_platform=PLATFORM)
    return config


def check_names_and_paths(config: ModelServerConfig) -> None:
    """Raise INVALID_ARGUMENT for a model that is listed twice or has no absolute base path."""
    seen: set[str] = set()
    for model in config.model_config_list.config:
        if model.name in seen:
            raise invalid(f"Illegal to list model {model.name} multiple times in config list")
        seen.add(model.name)
    for model in config.model_config_list.config:
        if not (PurePosixPath(model.base_path).is_absolute() or "://" in model.base_path):
            text = f"Expected model {model.name} to have an absolute path or URI;"
            raise invalid(f"{text} got base_path()={model.base_path}")


def check_platforms(config: ModelServerConfig) -> None:
    """Raise INVALID_ARGUMENT for a model of another platform than TensorFlow."""
    for model in config.model_config_list.config:
        old_type = model.model_type != model_server_config_pb2.MODEL_TYPE_UNSPECIFIED
        settings = "ModelServerConfig::model_type (deprecated)"
        if old_type and model.model_platform:
            raise invalid(f"Illegal setting both {settings} and ModelServerConfig::model_platform.")
        if not old_type and not model.model_platform:
            text = f"Illegal setting neither {settings} nor ModelServerConfig::model_platform, model name is"
            raise invalid(f"{text} {model.name}")
        platform = PLATFORM if model.model_type == model_server_config_pb2.TENSORFLOW else model.model_platform
        if platform != PLATFORM:
            raise invalid(f"Model {model.name} requests unsupported platform {platform or 'other'}")
