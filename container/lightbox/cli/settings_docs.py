"""Texts about a setting for --help and the pages: the docstring below its declaration, its type, its option."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lightbox.base.settings import variable_names
from lightbox.base.settings_types import option_of

_BOUNDS = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}


def option_name(name: str, part: type[BaseModel]) -> str:
    """Return the option of a setting without its dashes: ``workers`` for ``--workers``."""
    return option_of(part.model_fields[name]).name or name.replace("_", "-")


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


def description(name: str, part: type[BaseModel]) -> tuple[str, ...]:
    """Return the first sentence and, if there are any, the others, which name all variables beside the first."""
    first, dot, others = docstrings(part)[name].partition(". ")
    known = variable_names(name, part)[1:] if part.model_fields[name].validation_alias else []
    more = ", ".join(f"`{variable}`" for variable in known if f"`{variable}" not in docstrings(part)[name])
    return tuple(filter(None, (first + dot.rstrip(), others, more and f"Alias: {more}.")))


def kind_of(field: FieldInfo) -> Any:
    """Return the type without the None for "unset"."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    return kinds[0] if get_origin(field.annotation) is not Literal and kinds else field.annotation


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """Return the values of a setting that has a few, else nothing."""
    kind = kind_of(field)
    return get_args(kind) if get_origin(kind) is Literal else ()


def limits_of(field: FieldInfo) -> str:
    """Return the bounds as a range, ``1..64``, or in words if one is missing or exclusive."""
    bounds = {name: getattr(bound, name) for bound in field.metadata for name in _BOUNDS if hasattr(bound, name)}
    if bounds.keys() >= {"ge", "le"}:
        return f"{bounds['ge']}..{bounds['le']}"
    return " ".join(f"{word} {bounds[name]:g}" for name, word in _BOUNDS.items() if name in bounds)
