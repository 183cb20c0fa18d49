"""Writes docs/settings.md from the settings' own declarations: ``python scripts/write_settings_page.py``."""

from __future__ import annotations

from pathlib import Path

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lightbox.cli.settings_docs import choices_of, description, kind_of, option_name
from lightbox.core.settings import Settings, variable_names
from lightbox.core.settings_types import default_of, setting_metadata
from lightbox.settings_loading import parts

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "path"}

HEAD = """# Settings

Set an environment variable, or its option of `lightbox serve`, `check`, `engines`, `try` and `tune`, which overrides
the variable:

```bash
SAGEMAKER_BIND_TO_PORT=8081 lightbox serve models
lightbox serve models --port 8081
lightbox check --all  # print every value; without --all those that are not defaults
```

A wrong value, or a misspelled `LIGHTBOX_` name, stops the start with an error. A misspelled `SAGEMAKER_` name gets a
warning. Booleans are `true` or `false` (also `on`, `yes`, `1`); as options `--page` and `--without-page`. An empty
variable counts as unset. This page is generated: `make settings-page`.
"""


def page() -> str:
    """Return the page: a section with a table for each theme of the core's settings, and one for all features."""
    themes: dict[str, list[tuple[str, type[BaseModel]]]] = {}
    for part in parts():
        for name, field in part.model_fields.items():
            theme = setting_metadata(field, "theme")
            known = part is Settings or theme in themes
            themes.setdefault(theme if known else "Features", []).append((name, part))
    return HEAD + "".join(_section(theme, settings) for theme, settings in themes.items())


def _section(theme: str, settings: list[tuple[str, type[BaseModel]]]) -> str:
    rows = "".join(_row(name, part) for name, part in settings)
    head = "| setting, option | values | default | meaning |\n|---|---|---|---|\n"
    return f"\n## {theme}\n\n{head}{rows}"


def _row(name: str, part: type[BaseModel]) -> str:
    field = part.model_fields[name]
    variable, *others = variable_names(name, part)
    text = " ".join(filter(None, description(name, part)))
    unsaid = [f"`{other}`" for other in others if f"`{other}" not in text]
    cells = (
        f"`{variable}` `--{option_name(name, part)}`",
        _values(field),
        default_of(field),
        text + (f" Also {', '.join(unsaid)}." if unsaid else ""),
    )
    return f"| {' | '.join(cells)} |\n"


def _values(field: FieldInfo) -> str:
    """Return the values of an enumerated setting, else its type with unit and bounds."""
    if values := setting_metadata(field, "values"):
        return values
    if choices := choices_of(field):
        return ", ".join(f"`{value}`" for value in choices)
    unit = setting_metadata(field, "unit")
    return f"{TYPES[kind_of(field)]} {_limits(field)}".strip() + (f", {unit}" if unit else "")


def _limits(field: FieldInfo) -> str:
    """Return the bounds as a range, ``1..64``, or in words if one is missing or exclusive."""
    bounds = {type(bound): bound for bound in field.metadata}
    low, above = bounds.get(annotated_types.Ge), bounds.get(annotated_types.Gt)
    high, below = bounds.get(annotated_types.Le), bounds.get(annotated_types.Lt)
    if low and high:
        return f"{low.ge}..{high.le}"
    lower = f"from {low.ge:g}" if low else f"above {above.gt:g}" if above else ""
    upper = f"to {high.le}" if high else f"below {below.lt}" if below else ""
    return f"{lower} {upper}".strip()


if __name__ == "__main__":
    PAGE.write_text(page())
