"""Writes docs/settings.md from the settings' own declarations: ``python scripts/write_settings_page.py``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lightbox.settings import Settings
from lightbox.settings_loading import variable_names

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD = """# Settings

Every setting is an environment variable, read once at start. A wrong value stops the start with a sentence that
names the variable; a misspelled `LIGHTBOX_` name is an error that suggests the right one. `./serve.sh check`
prints the effective values.

This page is generated: `make settings-page`.
"""


def page() -> str:
    """Return the page: one section for each setting, in the order of their declaration."""
    return HEAD + "".join(_section(name, field) for name, field in Settings.model_fields.items())


def _section(name: str, field: FieldInfo) -> str:
    first, *others = variable_names(name)
    also = f" Also read from `{'`, `'.join(others)}`." if others else ""
    description = " ".join((field.description or "").split())
    return f"\n## `{first}`\n\n{description}{also}\n\nDefault: {_default(field)}\n"


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "see above" if field.default_factory_takes_validated_data else "from the machine"
    value: Any = field.default
    if value is None or value is PydanticUndefined:
        return "none"
    return f"`{value.value if isinstance(value, Enum) else value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
