"""Imports an ``inference.py``."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import zlib
from collections.abc import Collection, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

from lightbox.user_code.errors import UserCodeError
from lightbox.user_code.functions import Function, choose_functions, names_used
from lightbox.user_code.monkey_patches import disarm
from lightbox.user_code.packages import how_to_have
from lightbox.user_code.places import LIB

PYTHONPATH = "PYTHONPATH"

_lock = threading.Lock()
_folders: set[Path] = set()
"""Folders of code from which modules are loaded."""


def load_functions(file: Path) -> dict[str, Function]:
    """Import a user's file and return the functions to call, by name.

    Its folder and that folder's ``lib/`` come first on sys.path, ``lib/`` before all. Raises UserCodeError with one
    sentence; for code that fails when imported, ``__cause__`` is what it raised.
    """
    with _lock:
        try:
            source = file.read_bytes()
            code = compile(source, str(file), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OSError) as error:
            raise UserCodeError(f"{file} cannot be read as Python: {_sentence(error)}") from error
        _put_on_path(file.parent)
        disarm()
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
    """Return an empty module of a name that no other model's file has."""
    name = f"inference_{zlib.crc32(str(file).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a file whose name ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def _put_on_path(folder: Path) -> None:
    """Let imports find this folder's modules first, also where another model has helpers of the same name."""
    places = (folder, folder / LIB)
    _forget_namesakes(places)
    _folders.update(places)
    _take_off_path(places)
    ours = [str(folder / LIB), str(folder)]
    sys.path[:0] = ours
    # As in AWS's container: what a handler starts finds its modules, too.
    os.environ[PYTHONPATH] = os.pathsep.join([*ours, *_inherited()])


def _take_off_path(places: Sequence[Path]) -> None:
    entries = {str(place) for place in places}
    sys.path[:] = [entry for entry in sys.path if entry not in entries]
    os.environ[PYTHONPATH] = os.pathsep.join(entry for entry in _inherited() if entry not in entries)


def _inherited() -> list[str]:
    return list(filter(None, os.environ.get(PYTHONPATH, "").split(os.pathsep)))


def environ_without_code() -> dict[str, str]:
    """Return this process's environment for a process of ours: without the users' modules on its path."""
    with _lock:
        code = {str(folder) for folder in _folders}
        return dict(os.environ) | {PYTHONPATH: os.pathsep.join(entry for entry in _inherited() if entry not in code)}


def forget_folder(folder: Path) -> None:
    """Drop what was imported from a folder of code, and take it off the path: its files may have changed.

    A package with compiled modules stays, as few of them can be loaded twice in one process.
    """
    with _lock:
        found = {name: module for name, module in list(sys.modules.items()) if _lies_in(module, [folder])}
        compiled = {name.partition(".")[0] for name, module in found.items() if _is_compiled(module)}
        for name in found:
            if name.partition(".")[0] not in compiled:
                sys.modules.pop(name, None)
        places = (folder, folder / LIB)
        _take_off_path(places)
        if not compiled:
            _folders.difference_update(places)
        for entry in [entry for entry in list(sys.path_importer_cache) if _is_below(entry, folder)]:
            sys.path_importer_cache.pop(entry, None)


def _lies_in(module: ModuleType, folders: Collection[Path]) -> bool:
    file = getattr(module, "__file__", None)
    try:
        # A package without an __init__.py has no file, and places that may be more than one.
        places = [file] if file else list(getattr(module, "__path__", ()))
    except KeyError:  # of such a package whose parent is gone
        return False
    return bool(places) and all(any(_is_below(str(place), folder) for folder in folders) for place in places)


def _is_below(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}/")


def _is_compiled(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", "")).endswith(tuple(EXTENSION_SUFFIXES))


def _forget_namesakes(places: Sequence[Path]) -> None:
    """Drop what was imported from another model's folder under a name that these places have too."""
    names = {entry.name.partition(".")[0] for place in places if place.is_dir() for entry in place.iterdir()}
    namesakes = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names}
    others = _folders.difference(places)
    for name in [name for name, module in namesakes.items() if _lies_in(module, others)]:
        if not _lies_in(namesakes[name], places[:1]):
            del sys.modules[name]


def _why(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{_sentence(error)}; {how_to_have(error.name or '')}"
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({error.code!r}) when it is imported"
    return _sentence(error)


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
