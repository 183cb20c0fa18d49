"""Writes the reference tables of docs/*.md from the code's declarations: ``python scripts/write_reference.py``.

A table stands between ``<!-- make reference: NAME -->`` and ``<!-- end -->``. The rest of a page is written by hand.
The chart's schema lists the settings too.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import click
from pydantic.fields import FieldInfo

from lightbox.base.settings import Settings, variable_names
from lightbox.base.settings_types import default_of, setting_metadata
from lightbox.base.telemetry import metrics
from lightbox.cli import COMMANDS, lightbox
from lightbox.cli.settings_docs import choices_of, description, kind_of, limits_of, option_name
from lightbox.features import FEATURES
from lightbox.model.options import ModelOptions
from lightbox.model_runtime.server.flags import OWN_FLAGS
from lightbox.serving.settings_loading import parts
from lightbox.tools.harness.tables import table

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
SCHEMA = Path(__file__).parents[1] / "deploy" / "helm" / "lightbox" / "values.schema.json"
METRICS = [
    *(value for value in vars(metrics).values() if isinstance(value, metrics.Metric)),
    *(metric for feature in FEATURES for metric in feature.metrics),
]
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "path"}
_SECTION = re.compile(r"(<!-- make reference: (\w+) -->).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return a page with its tables as the code declares them now."""
    return _SECTION.sub(lambda found: "\n\n".join([found[1], "\n".join(WRITERS[found[2]]()).strip(), found[3]]), page)


def schema(text: str) -> str:
    """Return the schema of the chart's values with the settings as the code declares them now."""
    names = {variable for part in parts() for name in part.model_fields for variable in variable_names(name, part)}
    listed = json.dumps(sorted(name for name in names if name.startswith("LIGHTBOX_")))
    return re.sub(r'("setting": {"enum": )\[.*?\]', lambda found: found[1] + listed, text)


def _settings() -> Iterator[str]:
    """Yield a section with a table for each theme of the core's settings, and one for all features."""
    themes: dict[str, list[tuple[str, ...]]] = {}
    for part in parts():
        for name, field in part.model_fields.items():
            theme = setting_metadata(field, "theme")
            is_known = part is Settings or theme in themes
            names = f"`{variable_names(name, part)[0]}` `--{option_name(name, part)}`"
            row = (names, _values(field), default_of(field), " ".join(description(name, part)))
            themes.setdefault(theme if is_known else "Features", []).append(row)
    for theme, rows in themes.items():
        yield from ("", f"## {theme}", "", *table(("setting, option", "values", "default", "meaning"), rows))


def _values(field: FieldInfo, shown: Callable[[object], str] = str) -> str:
    """Return the values of an enumerated field, else examples, else its type with unit and bounds."""
    if values := setting_metadata(field, "values"):
        return values
    if choices := choices_of(field):
        return ", ".join(f"`{shown(value)}`" for value in choices)
    if field.examples:
        return f"such as {' or '.join(f'`{shown(value)}`' for value in field.examples)}"
    unit = setting_metadata(field, "unit")
    return f"{_TYPES[kind_of(field)]} {limits_of(field)}".strip() + (f", {unit}" if unit else "")


def _options() -> list[str]:
    rows = []
    for name, field in ModelOptions.model_fields.items():
        default = f'`"{field.default}"`' if isinstance(field.default, str) else default_of(field)
        rows.append((f"`{name}`", _values(field, json.dumps), default, " ".join(description(name, ModelOptions))))
    return table(("option", "values", "default", "meaning"), rows)


def _metrics() -> list[str]:
    rows = []
    for metric in METRICS:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        rows.append((f"`{name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.help))
    return table(("metric", "type", "labels", "value"), rows)


def _flags() -> list[str]:
    return table(("flag", "meaning"), ((f"`{flag.shown()}`", flag.text) for flag in OWN_FLAGS))


def _commands() -> Iterator[str]:
    """Yield a section for each command: usage, description, and its options without those that are settings."""
    for name in COMMANDS:
        command = lightbox.get_command(click.Context(lightbox), name)
        assert command is not None
        yield from (f"## {name}", "")
        members = command.commands if isinstance(command, click.Group) else {}
        takers: dict[str, list[str]] = {}
        for words, one in {name: command, **{f"{name} {word}": member for word, member in members.items()}}.items():
            context = click.Context(one)
            usage = [piece for piece in one.collect_usage_pieces(context) if piece != "[OPTIONS]"]
            yield from (f"`lightbox {' '.join([words, *usage])}`", "", inspect.cleandoc(one.help or ""), "")
            for param in one.params:
                record = param.get_help_record(context)
                if record is not None and type(param) is click.Option:
                    takers.setdefault(f"- `{record[0]}`: {record[1]}", []).append(words.removeprefix(f"{name} "))
        shared: dict[str, list[str]] = {}
        for option, of in takers.items():
            shared.setdefault(", ".join(of), []).append(option)
        for names, listed in shared.items():
            yield from (*([f"Options of {names}:", ""] if members else []), *listed, "")


WRITERS: Mapping[str, Callable[[], Iterable[str]]] = {
    writer.__name__[1:]: writer for writer in (_settings, _options, _metrics, _flags, _commands)
}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text()))
    SCHEMA.write_text(schema(SCHEMA.read_text()))
