"""What a person reads of a setting: the text below its declaration, its type, its option."""

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

from lightbox.core.settings_types import option_of


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


def description(name: str, part: type[BaseModel]) -> tuple[str, str]:
    """Return the first sentence, and the others."""
    first, dot, others = docstrings(part).get(name, "").partition(". ")
    return first + dot.rstrip(), others


def kind_of(field: FieldInfo) -> Any:
    """Return the type without the None for "unset"."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    return kinds[0] if get_origin(field.annotation) is not Literal and kinds else field.annotation


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """Return the values of a setting that has a few, else nothing."""
    kind = kind_of(field)
    return get_args(kind) if get_origin(kind) is Literal else ()
