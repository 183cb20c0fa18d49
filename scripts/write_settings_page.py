"""Writes docs/settings.md from the settings' own declarations: ``python scripts/write_settings_page.py``."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lightbox.core.settings import Settings, variable_names
from lightbox.features import FEATURES

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

THEMES = {
    "Models": "model_dir default_model scaling image_size outputs labels top_k model_changes jsonlines "
    "exif_orientation fast_decode resize",
    "Model servers and wires": "model_server transports instance_count safe_port_range inter_op_parallelism "
    "intra_op_parallelism gpu_memory_margin",
    "Engines of the embedded model server": "engine precision engine_cache_dir",
    "Port": "port",
    "Workers and queue": "workers threads max_waiting worker_class",
    "Time": "request_timeout proxy_read_timeout wait_seconds drain_seconds batch",
    "Limits": "max_body_mb max_text_mb max_bodies_mb request_memory_mb max_image_pixels "
    "max_image_side max_image_memory_mb max_request_pixels max_connections_per_address max_rate_per_address",
    "Batching in the model server": "enable_batching max_batch_size batch_timeout_micros num_batch_threads "
    "max_enqueued_batches",
    "Code for all models": "code_dir universal_bucket universal_prefix",
    "Logs and metrics": "log_format gunicorn_loglevel nginx_loglevel metrics",
}
"""Headings of the page, and Lightbox's own settings below each. Those of a feature have a heading of their own."""

DERIVED = {
    "request_timeout": "30; 60 where an `inference.py` answers; 600 in batch transform",
    "proxy_read_timeout": "10 more than the request timeout",
    "max_text_mb": "`LIGHTBOX_MAX_BODY_MB`",
    "max_bodies_mb": "from free memory and disk",
    "request_memory_mb": "a quarter of the container's memory",
    "max_request_pixels": "10 times `LIGHTBOX_MAX_IMAGE_PIXELS`",
    "workers": "the number of cores",
    "threads": "8; 1 with `sync` and `tornado`",
    "num_batch_threads": "the number of cores",
    "max_enqueued_batches": "the number of cores; 100000000 in batch transform",
    "transports": "`local,grpc,rest` with the embedded model server, else `grpc`",
    "default_model": "the first by name",
    "outputs": "all",
}
"""Defaults that no single value says; a feature's are in the ``json_schema_extra`` of its fields."""

ACCEPTED = {
    "transports": "one or several of `local`, `grpc`, `rest`, such as `grpc,rest`",
    "image_size": "1 to 99999 each",
    "safe_port_range": "1 to 65535, two ports per model server",
}
"""Values that are allowed, where the field's type does not say it."""

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "path"}

HEAD = """# Settings

Every setting is an environment variable that Lightbox reads once, at start. A wrong value stops the start with a
sentence that names the variable. So does a misspelled `LIGHTBOX_` name, with a suggestion. A misspelled `SAGEMAKER_`
name gets a warning in the log that suggests the right one, unless it is a variable of SageMaker's own. `./serve.sh
check` prints the effective values.

Booleans are `true` or `false`; `on` and `off`, `yes` and `no`, `1` and `0` work too. "Unset" means that the variable is
not set or is empty.

This page is generated: `make settings-page`.
"""


def page() -> str:
    """Return the page: a section for each theme, with a table of its settings and what the table has no room for.

    Raises ValueError for a setting without a theme.
    """
    themes = {theme: names.split() for theme, names in THEMES.items()}
    listed = [name for names in themes.values() for name in names]
    if sorted(listed) != sorted(Settings.model_fields):
        raise ValueError(f"THEMES: expected each setting once; differing: {set(listed) ^ set(Settings.model_fields)}")
    own = "".join(_section(theme, Settings, names) for theme, names in themes.items())
    added = ((feature.theme, feature.settings) for feature in FEATURES if feature.settings.model_fields)
    return HEAD + own + "".join(_section(theme, part, list(part.model_fields)) for theme, part in added)


def _section(theme: str, part: type[BaseModel], names: list[str]) -> str:
    rows = "".join(_row(name, part) for name in names)
    details = "".join(_details(name, part) for name in names)
    return f"\n## {theme}\n\n| setting | type | default | values | meaning |\n|---|---|---|---|---|\n{rows}{details}"


def _row(name: str, part: type[BaseModel]) -> str:
    field = part.model_fields[name]
    cells = (f"`{variable_names(name, part)[0]}`", _type(name, field), _default(name, field), _values(name, field))
    return f"| {' | '.join(cells)} | {_description(name, part)[0]} |\n"


def _details(name: str, part: type[BaseModel]) -> str:
    variable, *others = variable_names(name, part)
    also = f"Also read from `{'`, `'.join(others)}`." if others else ""
    text = " ".join(filter(None, (_description(name, part)[1], also)))
    return f"\n**`{variable}`**: {text}\n" if text else ""


@cache
def docstrings(part: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each setting of a class that has one, by the setting's name, on one line."""
    ours = (base for base in part.__mro__ if base.__module__.startswith("lightbox."))
    return {name: " ".join(text.split()) for base in ours for name, text in _docstrings(base)}


def _docstrings(declaring: type) -> Iterator[tuple[str, str]]:
    """Yield the fields that a class declares with a text below them, and these texts."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(declaring))).body
    assert isinstance(body, ast.ClassDef)
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, text


def _description(name: str, part: type[BaseModel]) -> tuple[str, str]:
    """Return the first sentence, and the others."""
    first, dot, others = docstrings(part).get(name, "").partition(". ")
    return first + dot.rstrip(), others


def _kind(field: FieldInfo) -> Any:
    """Return the type without the None that stands for "unset"."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    return kinds[0] if get_origin(field.annotation) is not Literal and kinds else field.annotation


def _type(name: str, field: FieldInfo) -> str:
    kind = _kind(field)
    if get_origin(kind) is Literal:
        return "choice"
    if get_origin(kind) is tuple:
        return {"image_size": "size", "safe_port_range": "range"}.get(name, "list")
    return TYPES[kind]


def _values(name: str, field: FieldInfo) -> str:
    if name in ACCEPTED:
        return ACCEPTED[name]
    kind = _kind(field)
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if kind is bool:
        return "`true`, `false`"
    bounds = {type(bound): bound for bound in field.metadata}
    low, above = bounds.get(annotated_types.Ge), bounds.get(annotated_types.Gt)
    high, below = bounds.get(annotated_types.Le), bounds.get(annotated_types.Lt)
    lower = f"from {low.ge:g}" if low else f"above {above.gt:g}" if above else ""
    upper = f"to {high.le}" if high else f"below {below.lt}" if below else ""
    return f"{lower} {upper}".strip() or "any"


def _default(name: str, field: FieldInfo) -> str:
    if name in DERIVED:
        return DERIVED[name]
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["default"])
    if field.default_factory is not None:
        raise ValueError(f"DERIVED: expected a text for the default of {name}")
    value: Any = field.default
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else f'{value:g}' if isinstance(value, float) else value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
