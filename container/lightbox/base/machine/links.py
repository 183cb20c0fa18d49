"""Where links in a folder lead: inside it, into a folder that the operator allows, or out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_LINKS = 40
"""Most links on the way to a file, as in Linux."""
LEADS_OUT = "leads out of the model's folder; set LIGHTBOX_LINKED_FOLDERS to allow another folder"
"""The end of a refusal, the same whether or not anything is there."""


def followed(path: Path, folder: Path, allowed: Sequence[Path] = ()) -> Path | None:
    """Return where a path leads after links; None if that is neither in ``folder`` nor in one of ``allowed``.

    A model's files may have chosen the path, and any link in ``folder``. ``folder`` itself may be a link, also into
    another process's root. Files in a snapshot of Hugging Face's cache are links into ``blobs/`` of its repository.

    Nothing outside of the folder is looked at before it is known to be allowed: a refusal does not depend on it.
    """
    base = _real(folder)
    at, waiting = (base, path.relative_to(folder).parts) if path.is_relative_to(folder) else (Path(), path.parts)
    parts, links = [*reversed(waiting)], 0
    while parts:
        here = at / (part := parts.pop())
        if part == os.pardir:
            if _target(at) is not None:  # only where a path is not of this process's root
                return None
            at = at.parent
        elif part == os.sep or base.is_relative_to(here):
            at = here
        elif not at.is_relative_to(base):
            return _allowed(here.joinpath(*reversed(parts)), base, allowed)
        elif (target := _target(here)) is None:
            at = here
        elif (links := links + 1) > MOST_LINKS:
            return None
        else:
            parts += reversed(target.parts)
    return at if at.is_relative_to(base) else None


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:
        return None


def _real(folder: Path) -> Path:
    """Return a folder's path without links, or as it is where that is no path of this process's root."""
    real = Path(os.path.realpath(folder))
    try:
        return real if real.samefile(folder) else folder.absolute()
    except OSError:
        return folder.absolute()


def _allowed(path: Path, base: Path, allowed: Sequence[Path]) -> Path | None:
    """Return where a path outside of ``base`` leads, if it may."""
    if os.pardir in path.parts:
        return None
    target = Path(os.path.realpath(path))
    if target.parent == _blobs(base) or any(target.is_relative_to(_real(home)) for home in (base, *allowed)):
        return target
    within = (followed(path, home.absolute()) for home in allowed if path.is_relative_to(home.absolute()))
    return next(filter(None, within), None)


def _blobs(folder: Path) -> Path | None:
    """Return the files of the repository in Hugging Face's cache of which a folder is in a snapshot; else None."""
    for snapshots in folder.parents:
        if snapshots.name == "snapshots" and snapshots.parent.name.startswith("models--"):
            return snapshots.parent / "blobs"
    return None


def entries_below(folder: Path) -> Iterator[tuple[os.DirEntry[str], int]]:
    """Yield what is in a folder and in those below it, each folder once, with its depth; links are followed after that.

    The caller ends the iteration before a link that leads out. Folders that the user may not read are left out. Raises
    OSError.
    """
    seen, waiting = set[tuple[int, int]](), [(folder, 0)]  # a list: recursion could be too deep
    while waiting:
        path, depth = waiting.pop()
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen or (depth and not os.access(path, os.R_OK | os.X_OK)):
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(path) as entries:
            for entry in entries:
                yield entry, depth
                if entry.is_dir():
                    waiting.append((Path(entry.path), depth + 1))
