"""Detects the API of a user's module; every problem with it is a sentence.

AWS's API is ``handler(data, context)`` or the pair ``input_handler(data, context)`` and
``output_handler(response, context)``; ``handler`` wins over the pair, and half a pair is refused, both as in
AWS's container. Lightbox's API is ``preprocess(request)`` and ``postprocess(outputs, request)``, or one of them.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import os
import sys
import threading
import zlib
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from lightbox.base.machine.environment import environment, variable
from lightbox.model_runtime.access import MOST_TEXT, pass_lack, read_file
from lightbox.user_code.monkey_patches import disable_patches
from lightbox.user_code.paths import LIB, UserCodeError, how_to_install

Function = Callable[..., Any]

PARAMETERS: dict[str, tuple[str, ...]] = {
    "handler": ("data", "context"),
    "input_handler": ("data", "context"),
    "output_handler": ("response", "context"),
    "preprocess": ("request",),
    "postprocess": ("outputs", "request"),
}
"""The functions that Lightbox calls, and their arguments. Users may name the parameters freely."""

AWS_PAIR = ("input_handler", "output_handler")
LIGHTBOX_API = ("preprocess", "postprocess")
EITHER = (
    "define preprocess(request) or postprocess(outputs, request) or both, or, as in AWS's container, "
    "handler(data, context) or input_handler(data, context) with output_handler(response, context)"
)
PYTHONPATH = "PYTHONPATH"

_lock = threading.Lock()
_folders: set[Path] = set()
"""Loaded folders of code."""


def choose_functions(namespace: Mapping[str, Any], used: Collection[str]) -> dict[str, Function]:
    """Return the functions to call by name; raise UserCodeError with the problem, without the file's name.

    ``namespace`` is the module's; ``used`` are the names that the module itself reads. A function that the module calls
    itself is a helper with a similar name, unless it defines no other one.
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
    """Return, without running a module, whether it has functions of AWS's API, or may import them with a star.

    An unreadable module has none; its import reports the error.
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
    """Yield the names that a module's own statements bind, also in branches; ``*`` for a star import."""
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
    """Return the names that are functions of AWS's API, and of Lightbox's."""
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
    except ValueError:  # compiled code has no signature
        return
    try:
        signature.bind(*expected)
    except TypeError:
        count = "one argument" if len(expected) == 1 else f"{len(expected)} arguments"
        raise UserCodeError(f"{name} is called with {count}, {call}; it is defined as {name}{signature}") from None


def load_functions(file: Path) -> dict[str, Function]:
    """Import a user's file and return the functions to call, by name.

    Its folder and that folder's ``lib/`` come first on sys.path, ``lib/`` before all. Raises UserCodeError with one
    sentence; for code that fails on import, ``__cause__`` is its exception.
    """
    with _lock:
        try:
            source = read_file(file, MOST_TEXT)
            code = compile(source, str(file), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OSError) as error:
            pass_lack(error)
            raise UserCodeError(f"{file} cannot be read as Python: {_sentence(error)}") from error
        _put_on_path(file.parent)
        disable_patches()
        module = _new_module(file)
        try:
            exec(code, module.__dict__)  # noqa: S102 - the user's own code is what this is for
        except BaseException as error:
            sys.modules.pop(module.__name__, None)
            raise UserCodeError(f"{file} cannot be imported: {_why(error)}") from error
        try:
            return choose_functions(vars(module), names_used(source))
        except UserCodeError as error:
            raise UserCodeError(f"{file}: {error}") from None


def _new_module(file: Path) -> ModuleType:
    """Return an empty module with a unique name."""
    name = f"inference_{zlib.crc32(str(file).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a file whose name ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def _put_on_path(folder: Path) -> None:
    """Put this folder first on the import path, before other models' helpers of the same names."""
    paths = (folder, folder / LIB)
    _forget_namesakes(paths)
    _folders.update(paths)
    _take_off_path(paths)
    ours = [str(folder / LIB), str(folder)]
    sys.path[:0] = ours
    # As in AWS's container: a handler's child processes find its modules, too.
    os.environ[PYTHONPATH] = os.pathsep.join([*ours, *_inherited()])


def _take_off_path(paths: Sequence[Path]) -> None:
    entries = {str(path) for path in paths}
    sys.path[:] = [entry for entry in sys.path if entry not in entries]
    os.environ[PYTHONPATH] = os.pathsep.join(entry for entry in _inherited() if entry not in entries)


def _inherited() -> list[str]:
    return list(filter(None, variable(PYTHONPATH).split(os.pathsep)))


def environ_without_code() -> dict[str, str]:
    """Return the environment for our own child processes: without the users' modules on its path."""
    with _lock:
        code = {str(folder) for folder in _folders}
        return environment() | {PYTHONPATH: os.pathsep.join(entry for entry in _inherited() if entry not in code)}


def forget_folder(folder: Path) -> None:
    """Unload the modules of a folder of code, and remove it from the path: its files may have changed.

    Packages with compiled modules stay, as few of them can be loaded twice in one process.
    """
    with _lock:
        found = {name: module for name, module in list(sys.modules.items()) if _lies_in(module, [folder])}
        compiled = {name.partition(".")[0] for name, module in found.items() if _is_compiled(module)}
        for name in found:
            if name.partition(".")[0] not in compiled:
                sys.modules.pop(name, None)
        paths = (folder, folder / LIB)
        _take_off_path(paths)
        if not compiled:
            _folders.difference_update(paths)
        for entry in [entry for entry in list(sys.path_importer_cache) if _is_below(entry, folder)]:
            sys.path_importer_cache.pop(entry, None)


def _lies_in(module: ModuleType, folders: Collection[Path]) -> bool:
    file = getattr(module, "__file__", None)
    try:
        # A package without an __init__.py has no file, and may have several folders.
        paths = [file] if file else list(getattr(module, "__path__", ()))
    except KeyError:  # of such a package whose parent is unloaded
        return False
    return bool(paths) and all(any(_is_below(str(path), folder) for folder in folders) for path in paths)


def _is_below(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}/")


def _is_compiled(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", "")).endswith(tuple(EXTENSION_SUFFIXES))


def _forget_namesakes(paths: Sequence[Path]) -> None:
    """Unload other models' modules whose names these folders have too."""
    names = {entry.name.partition(".")[0] for path in paths if path.is_dir() for entry in path.iterdir()}
    namesakes = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names}
    others = _folders.difference(paths)
    for name in [name for name, module in namesakes.items() if _lies_in(module, others)]:
        if not _lies_in(namesakes[name], paths[:1]):
            del sys.modules[name]


def _why(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{_sentence(error)}; {how_to_install(error.name or '')}"
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({error.code!r}) when it is imported"
    return _sentence(error)


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
