"""Which of the two APIs a user's module implements; everything about it that can be wrong is a sentence.

AWS's API is ``handler(data, context)`` or the pair ``input_handler(data, context)`` and
``output_handler(response, context)``; ``handler`` wins over the pair, and half a pair is refused, both as in
AWS's container. Lightbox's API is ``preprocess(request)`` and ``postprocess(outputs, request)``, or one of them.
"""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import Any

from lightbox.user_code.errors import UserCodeError

Function = Callable[..., Any]

PARAMETERS: dict[str, tuple[str, ...]] = {
    "handler": ("data", "context"),
    "input_handler": ("data", "context"),
    "output_handler": ("response", "context"),
    "preprocess": ("request",),
    "postprocess": ("outputs", "request"),
}
"""The functions that Lightbox calls, and what with. Users may name the parameters as they like."""

AWS_PAIR = ("input_handler", "output_handler")
LIGHTBOX_API = ("preprocess", "postprocess")
EITHER = (
    "define preprocess(request) or postprocess(outputs, request) or both, or, as in AWS's container, "
    "handler(data, context) or input_handler(data, context) with output_handler(response, context)"
)


def choose_functions(namespace: Mapping[str, Any], used: Collection[str]) -> dict[str, Function]:
    """Return the functions to call by name; raise UserCodeError with what is wrong, without the file's name.

    ``namespace`` is the module's; ``used`` are the names that the module itself reads. A function that the
    module calls itself is a helper that happens to have one of our names, or nearly, unless nothing else is there.
    """
    aws, lightbox = _by_api(namespace)
    if aws and lightbox:
        aws, lightbox = _without_helpers(aws, lightbox, used)
    chosen = _aws(aws, namespace, used) if aws else _lightbox(lightbox, namespace, used)
    functions = {name: namespace[name] for name in chosen}
    for name, function in functions.items():
        _check_parameters(name, function)
    return functions


def looks_like_aws(source: bytes) -> bool:
    """Tell, without running a module, whether it has functions of AWS's API, or may get them by a star import.

    A module that cannot be read, or that is refused when it is imported, has none.
    """
    try:
        bound = set(_names_bound(ast.parse(source)))
        aws, lightbox = _by_api(bound)
        if aws and lightbox:
            aws, _ = _without_helpers(aws, lightbox, names_used(source))
    except (SyntaxError, ValueError, UserCodeError):
        return False
    return bool(aws) or ("*" in bound and not lightbox)


def _names_bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a module's own statements bind, those in branches too; ``*`` for a star import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in child.names)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        else:
            yield from _names_bound(child)


def names_used(source: bytes) -> set[str]:
    """Return the names that a module's source reads."""
    return {
        node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _by_api(names: Container[str]) -> tuple[list[str], list[str]]:
    """Return which functions of AWS's API and which of Lightbox's are among the names."""
    defined = [name for name in PARAMETERS if name in names]
    return [n for n in defined if n not in LIGHTBOX_API], [n for n in defined if n in LIGHTBOX_API]


def _without_helpers(aws: list[str], lightbox: list[str], used: Collection[str]) -> tuple[list[str], list[str]]:
    called_aws = [name for name in aws if name not in used]
    called_lightbox = [name for name in lightbox if name not in used]
    if called_aws and called_lightbox:
        raise UserCodeError(
            f"it defines {' and '.join(called_aws)} of AWS's API and {' and '.join(called_lightbox)} of Lightbox's: "
            "keep one of the two APIs"
        )
    return ([], lightbox) if called_lightbox else (aws, [])


def _aws(defined: list[str], namespace: Mapping[str, Any], used: Collection[str]) -> tuple[str, ...]:
    if "handler" in defined:
        return ("handler",)
    missing = [name for name in AWS_PAIR if name not in defined]
    if missing:
        _refuse_misspelled(missing, namespace, used)
        raise UserCodeError(f"it defines {defined[0]} without {missing[0]}: define both, or handler(data, context)")
    return AWS_PAIR


def _lightbox(defined: list[str], namespace: Mapping[str, Any], used: Collection[str]) -> tuple[str, ...]:
    expected = LIGHTBOX_API if defined else PARAMETERS
    _refuse_misspelled([name for name in expected if name not in defined], namespace, used)
    if not defined:
        found = ", ".join(_own_functions(namespace)) or "none"
        raise UserCodeError(f"it defines no function that Lightbox calls: {EITHER}; its functions: {found}")
    return tuple(defined)


def _refuse_misspelled(missing: list[str], namespace: Mapping[str, Any], used: Collection[str]) -> None:
    wanted = {_letters(name): name for name in missing}
    for name in _own_functions(namespace):
        close = difflib.get_close_matches(_letters(name), wanted, n=1, cutoff=0.8)
        if close and name not in used and name not in PARAMETERS:
            raise UserCodeError(f"it defines {name}, which nothing calls: did you mean {wanted[close[0]]}?")


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _own_functions(namespace: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in namespace.items()
        if inspect.isfunction(value) and value.__module__ == namespace.get("__name__")
    ]


def _check_parameters(name: str, function: Any) -> None:
    expected = PARAMETERS[name]
    call = f"{name}({', '.join(expected)})"
    if not callable(function) or inspect.isclass(function):
        raise UserCodeError(f"{name} is not a function but {function!r:.100}: define {call}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UserCodeError(f"{name} must be a plain function that returns its result, not async and without yield")
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled code does not tell
        return
    try:
        signature.bind(*expected)
    except TypeError:
        count = "one argument" if len(expected) == 1 else f"{len(expected)} arguments"
        raise UserCodeError(f"{name} is called with {count}, {call}; it is defined as {name}{signature}") from None
