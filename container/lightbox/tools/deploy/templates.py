"""The templates: their text with the containers' environment, and their parameters."""

from __future__ import annotations

import difflib
import json
import math
import re
from pathlib import Path
from typing import Any

import click
import yaml

TEMPLATES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


class _Parameters(yaml.SafeLoader):
    """Reads a template without its functions: parameters have none."""


_Parameters.add_multi_constructor("!", lambda *_: None)


def with_environment(name: str, variables: dict[str, str]) -> str:
    """Return a template whose containers have these variables."""
    found = json.dumps(variables, ensure_ascii=False)
    return TEMPLATES[name].read_text().replace("Environment: {}", f"Environment: {found}")


def kind_and_environment(template: str) -> tuple[str, dict[str, str]]:
    """Return a template's name and its containers' variables; raise click.ClickException if it is none of ours."""
    found = re.search(r"^ *Environment: (\{.*\})$", template, re.MULTILINE)
    if found is None:
        raise click.ClickException("NAME: expected a stack made by `create`, got one with another template")
    return "component" if "::InferenceComponent" in template else "endpoint", yaml.safe_load(found[1])


def checked(template: str, options: dict[str, str], previous: dict[str, str]) -> dict[str, str]:
    """Return the values of all parameters: the given ones, else the previous ones, else the defaults.

    Raises click.ClickException for an unknown name, a missing value, and one that its parameter does not take.
    CloudFormation checks the template's rules, for values that do not fit together.
    """
    declared: dict[str, dict[str, Any]] = yaml.load(template, _Parameters)["Parameters"]  # noqa: S506 - a SafeLoader
    for name in options.keys() - declared.keys():
        near = difflib.get_close_matches(name, declared, 1) or declared
        raise click.ClickException(f"{name}: expected a parameter such as {', '.join(near)}, got an unknown one")
    values = {}
    for name, parameter in declared.items():
        value = options.get(name, previous.get(name, parameter.get("Default")))
        if value is None:
            raise click.ClickException(f"{name}: expected {parameter['Description']}, got nothing")
        values[name] = str(value)
        if expected := _objection(parameter, values[name]):
            raise click.ClickException(f"{name}: expected {expected}, got {value!r}")
    return values


def _objection(parameter: dict[str, Any], value: str) -> str | None:
    """Return the values that a parameter takes, None if this one is among them."""
    if allowed := [str(entry) for entry in parameter.get("AllowedValues", [])]:
        return None if value in allowed else f"one of {', '.join(allowed)}"
    fits = bool(re.fullmatch(parameter.get("AllowedPattern", ".*"), value))
    if parameter["Type"] != "Number":
        return None if fits else str(parameter["ConstraintDescription"])
    least, most = parameter["MinValue"], parameter.get("MaxValue", math.inf)
    fits = bool(re.fullmatch(r"\d+(\.\d+)?", value)) and least <= float(value) <= most
    return None if fits else f"a number from {least}" + (f" to {most}" if most < math.inf else "")
