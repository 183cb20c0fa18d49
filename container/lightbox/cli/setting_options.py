"""Commands whose options are the settings: an option and a variable are two spellings of one declaration."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NoReturn

import click
from pydantic import BaseModel

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings, variable_names
from lightbox.base.settings_types import default_of, option_of, setting_metadata
from lightbox.cli.settings_docs import choices_of, description, kind_of, limits_of, option_name
from lightbox.serving.settings_loading import parts

_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_GIVEN = "lightbox.given"
"""Where a context notes the options that were given, by their variables."""
_MODEL_DIR, _MODELS = (variable_names(name, Settings)[0] for name in ("model_dir", "models"))


class SuggestedChoice(click.Choice[str]):
    """The values of a setting that has a few, for help and completion."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a value as it is: it is judged with all others, where variables are."""
        return value


class SettingOption(click.Option):
    """Sets a variable of this process. Values are judged where variables are."""

    def __init__(self, name: str, part: type[BaseModel]) -> None:
        field = part.model_fields[name]
        option, kind, choices = option_name(name, part), kind_of(field), choices_of(field)
        self.setting, self.part = name, part
        self.variable = variable_names(name, part)[0]
        self.theme = setting_metadata(field, "theme")
        self.is_path = kind is Path or option_of(field).is_path
        about: dict[str, Any] = {"metavar": "TEXT"}
        if choices:
            about = {"type": SuggestedChoice(choices)}
        elif self.is_path:
            about = {"type": click.Path()}
        elif kind in (int, float):
            about = {"metavar": (setting_metadata(field, "unit") or "N").upper()}
        elif kind is bool:
            about = {"default": None}
        elif repeated := option_of(field).repeated:
            about = {"metavar": repeated, "multiple": True}
        flags = f"--{option}/--without-{option}" if kind is bool else f"--{option}"
        super().__init__([flags, name], expose_value=False, callback=_keep, **about)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return what ``--help`` says of it; the text is read from the declaration now."""
        record = super().get_help_record(ctx)
        assert record is not None
        field = self.part.model_fields[self.setting]
        text = _LINK.sub(r"\1", description(self.setting, self.part)[0]).replace("`", "")
        about = (self.variable, limits_of(field), f"default: {default_of(field)}".replace("`", ""))
        return record[0], f"{text} [{'; '.join(filter(None, about))}]"


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Put an option that was given where settings are read."""
    assert isinstance(param, SettingOption)
    if value is None or value == () or ctx.resilient_parsing:
        return
    if isinstance(value, bool):
        text = str(value).lower()
    else:
        text = ",".join(value) if isinstance(value, tuple) else str(value)
    exists = param.is_path and Path(text).exists()
    # Our processes run in other folders. A value that is no file may be a name that is looked up elsewhere.
    variable = param.variable
    os.environ[variable] = str(Path(text).absolute()) if exists else text
    without = "without-" if value is False else ""
    ctx.meta.setdefault(_GIVEN, {})[variable] = f"--{without}{option_name(param.setting, param.part)}"


class SettingsCommand(click.Command):
    """A command with an option for each setting, below headings; errors name the given option or variable."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [SettingOption(name, part) for part in parts() for name in part.model_fields]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those of the settings by theme."""
        themes: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            theme = param.theme if isinstance(param, SettingOption) else "Options"
            if record is not None and isinstance(param, click.Option):  # the text above describes arguments
                themes.setdefault(theme, []).append(record)
        for theme, records in themes.items():
            with formatter.section(theme):
                formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raise StartError with options in place of their variables."""
        typed: dict[str, str] = ctx.meta.get(_GIVEN, {})
        if typed.get(_MODEL_DIR) == "MODEL":
            if _MODELS in typed:
                raise click.UsageError("MODEL and --model exclude each other", ctx)
            variable = _MODELS
            os.environ[variable] = ""  # the argument has precedence
        try:
            return super().invoke(ctx)
        except StartError as error:
            if not typed:
                raise
            _raise_as_given(error, typed)


def _raise_as_given(error: StartError, given: dict[str, str]) -> NoReturn:
    lines = []
    for line in str(error).splitlines():
        variable, colon, rest = line.partition(":")
        lines.append(f"{given.get(variable, variable)}{colon}{rest}")
    raise StartError("\n".join(lines)) from error


def serve_model(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Take the argument MODEL for the folder or file of the models."""
    if value is None or ctx.resilient_parsing:
        return
    variable = _MODEL_DIR
    os.environ[variable] = str(Path(value).absolute())
    ctx.meta.setdefault(_GIVEN, {})[variable] = "MODEL"


def name_or_model(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the argument MODEL if it is the name of a model; a path is the folder of models."""
    if value is None or not (os.sep in value or Path(value).exists()):
        return value
    serve_model(ctx, param, value)
    return None


model_argument = click.argument(
    "model", required=False, type=click.Path(), callback=serve_model, expose_value=False, metavar="[MODEL]"
)
"""The models of a command: a folder, a file or a .tar.gz."""

named_model_argument = click.argument(
    "name", required=False, type=click.Path(), callback=name_or_model, metavar="[MODEL]"
)
"""The name of one of several models, or a path as in ``model_argument``."""
