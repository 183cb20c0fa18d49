"""Declaration and parsing of settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from pydantic import AliasChoices, ConfigDict, Field
from pydantic.fields import FieldInfo

from lightbox.model_runtime.engines import AUTO, ENGINES

NO_LIMIT = 100_000_000
"""Batches in the queue; the default of AWS's container in batch transform."""

ONE_AT_A_TIME = ("sync", "tornado")
"""gunicorn's worker classes that run one request at a time."""

if TYPE_CHECKING:
    EngineName = str
else:
    EngineName = Literal[(*ENGINES, AUTO)]

ScalingName = Literal["none", "unit", "tf", "torch", "caffe"]


class TransportName(StrEnum):
    """The transport between sidecar and model server; only the embedded server has ``local`` and ``inside``."""

    INSIDE = "inside"
    LOCAL = "local"
    GRPC = "grpc"
    REST = "rest"


def in_lower_case(value: Any) -> Any:
    """Return a text stripped and in lower case; other values unchanged."""
    return value.strip().lower() if isinstance(value, str) else value


def parse_default_model(value: Any) -> Any:
    """Return a model's name; None for the text that AWS's container uses for no model."""
    return None if value == "None" else value


def parse_folder(value: Any) -> Any:
    """Return the path of a ``file://`` URL, other values unchanged; raise ValueError for the URL of a bucket."""
    if not isinstance(value, str):
        return value
    if value.strip().lower().startswith("gs://"):
        raise ValueError(
            "expected a folder, as Lightbox reads nothing from Cloud Storage: put the model into the image, copy it "
            "there before the start or mount the bucket with Cloud Storage FUSE, and set LIGHTBOX_MODEL_DIR"
        )
    scheme, _, path = value.partition("://")
    return unquote(path.removeprefix("localhost")) if scheme.strip().lower() == "file" else value


def parse_transports(value: Any) -> Any:
    """Return the transports of a list such as ``"grpc,rest"``; true and false as in PREDICT_USING_GRPC."""
    if not isinstance(value, str):
        return value
    words = [{"true": "grpc", "1": "grpc", "false": "rest", "0": "rest"}.get(w, w) for w in _words(value.lower())]
    if not words or set(words) - set(TransportName) or len(set(words)) < len(words):
        raise ValueError("expected inside, local, grpc, rest, or several with the default one first, such as grpc,rest")
    return tuple(words)


def parse_port_range(value: Any) -> Any:
    """Return (low, high) for ``"9000-9999"``; raise ValueError for any other text."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", value)
    if not match:
        raise ValueError("expected two port numbers as low-high, such as 9000-9999")
    low, high = int(match[1]), int(match[2])
    if not 1 <= low < high <= 65535:
        raise ValueError("expected two ports from 1 to 65535 with low below high")
    return low, high


def parse_models(value: Any) -> Any:
    """Return paths by name for ``"cats=/models/cats,dogs=/models/dogs.onnx"``; raise ValueError for any other text."""
    if not isinstance(value, str):
        return value
    pairs = [pair.partition("=") for pair in re.split(r"\s*,\s*(?=[A-Za-z0-9._-]+=)", value.strip())]
    names = [name for name, _, _ in pairs]
    if not all(re.fullmatch(r"[A-Za-z0-9._-]+", name) and path for name, _, path in pairs):
        raise ValueError("expected NAME=PATH, or several with commas between them")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"expected each name once, and {', '.join(twice)} came more often")
    return {name: Path(path).absolute() for name, _, path in pairs}


def parse_folders(value: Any) -> Any:
    """Return the folders of a list such as ``"/a,/b"``; raise ValueError for a relative path."""
    if not isinstance(value, str):
        return value
    folders = [Path(word) for word in _words(value)]
    if not all(folder.is_absolute() for folder in folders):
        raise ValueError("expected absolute paths with commas between them")
    return tuple(folders)


def parse_image_size(value: Any) -> Any:
    """Return (width, height) for ``"640"`` or ``"640x480"``; raise ValueError for any other text."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d{1,5})(?:\s*[xX]\s*(\d{1,5}))?\s*", value)
    width, height = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (width and height):
        raise ValueError("expected one side or width x height in pixels, such as 640 or 640x480")
    return width, height


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


PART = ConfigDict(extra="ignore", frozen=True, defer_build=True)
"""For all classes of settings. Validators are built on first use. The docstrings of fields are for
docs/settings.md (scripts/write_reference.py); reading them here would parse the source in every process."""


@dataclass(frozen=True)
class Option:
    """How a setting appears on the command line."""

    name: str = ""
    """The option's name, if it differs from the field's."""
    repeated: str = ""
    """The form of each value, such as ``NAME=PATH``, of an option that may be repeated; else empty."""
    is_path: bool = False
    """Whether a text value may be a path."""


def setting(
    theme: str,
    *variables: str,
    default: Any = None,
    default_text: str = "",
    values_text: str = "",
    unit: str = "",
    option: Option | None = None,
    **bounds: Any,
) -> Any:
    """Return a field that ``variables`` set; the first variable has precedence.

    ``theme`` is its heading in ``--help``. ``default`` may be a function; ``default_text`` then describes it.
    ``values_text`` describes the allowed values where type and bounds do not. ``option`` is for the command line.
    """
    about: dict[str, Any] = {"theme": theme, "default": default_text, "values": values_text, "unit": unit}
    about["option"] = vars(option or Option())
    alias = AliasChoices(*variables) if len(variables) > 1 else variables[0]
    bounds |= {"default_factory": default} if callable(default) else {"default": default}
    return Field(validation_alias=alias, json_schema_extra=about, **bounds)


def setting_metadata(field: FieldInfo, key: str) -> str:
    """Return a field's ``theme``, ``default``, ``values`` or ``unit``; empty if absent."""
    extra = field.json_schema_extra
    return str(extra.get(key, "")) if isinstance(extra, dict) else ""


def option_of(field: FieldInfo) -> Option:
    """Return the field's Option."""
    extra: Any = field.json_schema_extra
    return Option(**extra["option"]) if isinstance(extra, dict) and "option" in extra else Option()


def default_of(field: FieldInfo) -> str:
    """Return a setting's default for the reader, values in backticks."""
    value: Any = field.default
    if text := setting_metadata(field, "default"):
        return text
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else f'{value:g}' if isinstance(value, float) else value}`"
