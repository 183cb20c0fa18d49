"""The reference tables of the pages are those that the code declares."""

from __future__ import annotations

import re
from pathlib import Path

import click

from lightbox.base.errors import STATUS_OF_CODE
from lightbox.base.settings import variable_names
from lightbox.cli import COMMANDS, lightbox
from lightbox.cli.setting_options import SettingOption
from lightbox.cli.settings_docs import docstrings
from lightbox.model.options import ModelOptions
from lightbox.serving.settings_loading import parts
from support.parameters import each
from write_reference import METRICS, PAGES, SCHEMA, WRITERS, schema, written

TEXTS = {page: page.read_text() for page in PAGES}


def cells(name: str) -> list[list[str]]:
    """Return the rows of the tables of a writer without their heads."""
    return [line[2:-2].split(" | ") for line in WRITERS[name]() if line.startswith("| `")]


@each("page", [page for page in PAGES if "<!-- make reference" in TEXTS[page]])
def test_the_tables_of_a_page_are_those_of_the_code(page: Path) -> None:
    assert TEXTS[page] == written(TEXTS[page]), "run: make reference"


def test_the_chart_takes_the_settings_of_the_code() -> None:
    text = SCHEMA.read_text()
    assert text == schema(text), "run: make reference"
    assert '"LIGHTBOX_PAGE"' in text


def test_each_table_is_on_one_page() -> None:
    found = re.findall(r"<!-- make reference: (\w+) -->", "".join(TEXTS.values()))
    assert sorted(found) == sorted(WRITERS)


def test_a_page_keeps_what_is_written_by_hand() -> None:
    page = written("# A page\n\n<!-- make reference: flags -->\nbefore it\n<!-- end -->\n\nMore.\n")
    assert page.startswith("# A page\n\n<!-- make reference: flags -->\n\n| flag |")
    assert page.endswith(" |\n\n<!-- end -->\n\nMore.\n")
    assert "before it" not in page


@each(
    ("table", "columns", "names"),
    [
        ("settings", 4, [variable_names(name, part)[0] for part in parts() for name in part.model_fields]),
        ("options", 4, [*ModelOptions.model_fields]),
        ("metrics", 4, [f"{each.name}_total" if each.kind == "counter" else each.name for each in METRICS]),
    ],
)
def test_a_table_has_a_row_for_each_declaration(table: str, columns: int, names: list[str]) -> None:
    rows = cells(table)
    assert {len(row) for row in rows} == {columns}
    assert [row for row in rows if not row[-1].strip() or not row[1].strip()] == []
    assert sorted(row[0].split("`")[1] for row in rows) == sorted(names)


def test_the_page_of_errors_has_a_row_for_each_code() -> None:
    page = (PAGES[0].parent / "errors.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert rows == [(code, str(status.http), status.grpc) for code, status in STATUS_OF_CODE.items()]


def test_options_have_values_and_defaults_in_json() -> None:
    shown = {row[0]: row[1:3] for row in cells("options")}
    assert shown["`fit`"] == ['`"stretch"`, `"crop"`, `"letterbox"`', '`"stretch"`']
    assert shown["`fast_decode`"] == ["boolean", "`false`"]
    assert shown["`mean`"] == ["such as `[0.5, 0.5, 0.5]`", "unset"]
    assert docstrings(ModelOptions).keys() == ModelOptions.model_fields.keys()


def test_commands_have_all_options_but_those_of_the_settings() -> None:
    text = "\n".join(WRITERS["commands"]())
    assert re.findall(r"^## (.+)", text, re.MULTILINE) == [*COMMANDS]
    for name in COMMANDS:
        section = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        command = lightbox.get_command(click.Context(lightbox), name)
        assert command is not None
        members = command.commands.values() if isinstance(command, click.Group) else []
        params = [param for one in (command, *members) for param in one.params if isinstance(param, click.Option)]
        own = {param.opts[0] for param in params if not isinstance(param, SettingOption)}
        assert set(re.findall(r"^- `(--[\w-]+)", section, re.MULTILINE)) == own
