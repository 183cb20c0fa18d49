"""Writes docs/settings.md from the settings' own declarations: ``python scripts/write_settings_page.py``."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lightbox.cli.settings_docs import choices_of, description, kind_of, option_name
from lightbox.core.settings import variable_names
from lightbox.core.settings_types import default_of, setting_metadata
from lightbox.settings_loading import parts

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "path"}

HEAD = """# Settings

Every setting is an environment variable that Lightbox reads once, at start, and an option of `lightbox serve`, `check`,
`engines`, `try` and `tune`, which wins over the variable. A wrong value stops the start with a sentence that names the
variable or the option. So does a misspelled `LIGHTBOX_` name, with a suggestion. A misspelled `SAGEMAKER_` name gets a
warning in the log that suggests the right one, unless it is a variable of SageMaker's own. `lightbox check` prints the
values that are no defaults, `lightbox check --all` all of them.

Booleans are `true` or `false`; `on` and `off`, `yes` and `no`, `1` and `0` work too. As options they are `--page` and
`--without-page`. "Unset" means that the variable is not set or is empty.

This page is generated: `make settings-page`.
"""


def page() -> str:
    """Return the page: a section for each theme, with a table of its settings and what the table has no room for."""
    themes: dict[str, list[tuple[str, type[BaseModel]]]] = {}
    for part in parts():
        for name, field in part.model_fields.items():
            themes.setdefault(setting_metadata(field, "theme"), []).append((name, part))
    return HEAD + "".join(_section(theme, settings) for theme, settings in themes.items())


def _section(theme: str, settings: list[tuple[str, type[BaseModel]]]) -> str:
    rows = "".join(_row(name, part) for name, part in settings)
    details = "".join(_details(name, part) for name, part in settings)
    head = "| setting, option | type | default | values | meaning |\n|---|---|---|---|---|\n"
    return f"\n## {theme}\n\n{head}{rows}{details}"


def _row(name: str, part: type[BaseModel]) -> str:
    field = part.model_fields[name]
    cells = (
        f"`{variable_names(name, part)[0]}` `--{option_name(name, part)}`",
        _type(field),
        default_of(field),
        _values(field),
    )
    return f"| {' | '.join(cells)} | {description(name, part)[0]} |\n"


def _details(name: str, part: type[BaseModel]) -> str:
    variable, *others = variable_names(name, part)
    also = f"Also read from `{'`, `'.join(others)}`." if others else ""
    text = " ".join(filter(None, (description(name, part)[1], also)))
    return f"\n**`{variable}`**: {text}\n" if text else ""


def _type(field: FieldInfo) -> str:
    kind, unit = kind_of(field), setting_metadata(field, "unit")
    if choices_of(field):
        return "choice"
    if get_origin(kind) is tuple:
        return "range" if get_args(kind)[0] is int else "list"
    return TYPES.get(kind, "JSON") + (f", {unit}" if unit else "")


def _values(field: FieldInfo) -> str:
    if values := setting_metadata(field, "values"):
        return values
    kind = kind_of(field)
    if choices := choices_of(field):
        return ", ".join(f"`{value}`" for value in choices)
    if kind is bool:
        return "`true`, `false`"
    bounds = {type(bound): bound for bound in field.metadata}
    low, above = bounds.get(annotated_types.Ge), bounds.get(annotated_types.Gt)
    high, below = bounds.get(annotated_types.Le), bounds.get(annotated_types.Lt)
    lower = f"from {low.ge:g}" if low else f"above {above.gt:g}" if above else ""
    upper = f"to {high.le}" if high else f"below {below.lt}" if below else ""
    return f"{lower} {upper}".strip() or "any"


if __name__ == "__main__":
    PAGE.write_text(page())
