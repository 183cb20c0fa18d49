"""The place of a model to load: inside the models directory, also after following links."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightbox.base.error_texts import ECHO_LIMIT, shown
from lightbox.base.errors import BadRequest, DeadlineExceeded, ModelNotFound
from lightbox.base.machine.links import LEADS_OUT, entries_below, followed
from lightbox.base.machine.scarcity import unreadable
from lightbox.base.request_context import RequestContext
from lightbox.model_files.archives import ENDINGS, MAX_DEPTH, MAX_ENTRIES
from lightbox.model_files.layout import (
    NAME_EXPECTED,
    ModelLayoutError,
    ModelOnDisk,
    find_models,
    is_model_name,
    is_servable,
)
from lightbox.model_runtime.access import pass_lack


@dataclass(frozen=True)
class Source:
    """A model's path as the caller wrote it, and the name of the request's field, which begins errors."""

    path: object
    field: str = "url"

    @property
    def shown(self) -> str:
        """The caller's path, shortened for an error."""
        return shown(self.path, ECHO_LIMIT)


def check_name(name: object) -> str:
    """Return a model's name, or raise BadRequest."""
    if not isinstance(name, str) or not is_model_name(name):
        came = "none" if name is None else repr(shown(name, 200))
        raise BadRequest(f"model_name: expected a name of {NAME_EXPECTED}, got {came}")
    return name


def locate(source: Source, root: Path) -> Path:
    """Return the folder or archive of ``source``, after links; a relative path starts at ``root``.

    Raises BadRequest for a path that leaves ``root``, ModelNotFound for a missing one.
    """
    field, shown = source.field, source.shown
    found = place_of(source, root)
    if root.resolve() not in found.parents:
        raise BadRequest(f"{field}: expected a path below LIGHTBOX_MODEL_DIR, got {shown!r}")
    if not is_place(source, found):
        raise ModelNotFound(f"{field}: there is no model {shown!r}")
    return found


def place_of(source: Source, root: Path) -> Path:
    """Return where a path leads after links, whether or not anything is there. Raises BadRequest."""
    path = source.path
    if not isinstance(path, str) or not path or "\x00" in path:
        came = "none" if path is None else repr(source.shown)
        raise BadRequest(f"{source.field}: expected the path of a model's folder or archive, got {came}")
    try:
        found = (root / path.removeprefix("file://")).resolve()
        if root.resolve() in found.parents:  # else no one learns whether it can be read
            is_place(source, found)
    except (OSError, RuntimeError) as error:
        pass_lack(error)
        raise BadRequest(f"{source.field}: the path {source.shown!r} cannot be followed") from None
    return found


def is_place(source: Source, found: Path) -> bool:
    """Return whether a folder is at ``found``, to which the source leads, or an archive. Raises OSError."""
    return found.is_dir() or (str(source.path).endswith(ENDINGS) and found.is_file())


def name_of(source: Source, root: Path) -> str | None:
    """Return the name of a model that is loaded by its path: the path below ``root``, an archive's without its ending.

    Returns None if that is no valid name, or may be another archive's path.
    """
    path = os.path.normpath(root / str(source.path).removeprefix("file://"))
    name = os.path.relpath(path, os.path.normpath(root))
    if not Path(path).is_dir():
        name = name.removesuffix(".tgz").removesuffix(".tar.gz")
        if name.endswith(ENDINGS):
            return None
    return name if is_model_name(name) else None


def unforeseeable_name(place: Path, root: Path, secret: bytes) -> str:
    """Return a name for a model that is loaded from a place, which no other place has.

    It is the same at each load, whatever the caller's spelling: names are labels of metrics, which are never freed.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "-", str(place.relative_to(root.resolve())))[:100]
    return f"{name}-{hmac.new(secret, os.fsencode(place), 'sha256').hexdigest()[:32]}"


def find_model(
    folder: Path, inside: Path, source: Source, context: RequestContext, allowed: Sequence[Path] = ()
) -> ModelOnDisk:
    """Return the one model in a folder, to which ``source`` led.

    Raises BadRequest for a link that leads out of ``inside`` and of ``allowed``, and for several models; ModelNotFound
    for none.
    """
    field, shown = source.field, source.shown
    measure(folder, inside, field, context, allowed)
    try:
        models = find_models(folder)
    except ModelLayoutError:
        raise ModelNotFound(f"{field}: no model was found in {shown!r}") from None
    if len(models) != 1:
        raise BadRequest(f"{field}: expected one model in {shown!r}, found {', '.join(m.name for m in models)}")
    return _with_a_version(models[0], source)


def _with_a_version(model: ModelOnDisk, source: Source) -> ModelOnDisk:
    """Refuse a base path without a loadable version: a model server would wait for one forever."""
    if not is_servable(model):
        raise ModelNotFound(f"{source.field}: no version in {source.shown!r} holds a model")
    return model


def measure(folder: Path, inside: Path, field: str, context: RequestContext, allowed: Sequence[Path] = ()) -> int:
    """Return the bytes of all files below a folder and its links, each folder once.

    Raises BadRequest for a link that leads out of ``inside`` and of ``allowed``, for more than MAX_ENTRIES files and
    folders, for nesting deeper than MAX_DEPTH, and for unreadable entries; DeadlineExceeded at the deadline.
    """
    total = 0
    try:
        for count, (entry, depth) in enumerate(entries_below(folder), 1):
            if count > MAX_ENTRIES:
                raise BadRequest(f"{field}: the folder holds more than {MAX_ENTRIES:,} files and folders")
            if depth >= MAX_DEPTH:
                raise BadRequest(f"{field}: the folder holds folders more than {MAX_DEPTH} deep")
            if context.remaining() <= 0:
                late = f"the folder could not be read within {context.allowed_seconds:g} s"
                raise DeadlineExceeded(f"{field}: {late}")
            if entry.is_symlink() and followed(Path(entry.path), inside, allowed) is None:
                raise BadRequest(f"{field}: the link {entry.name!r} {LEADS_OUT}")
            if entry.is_file():
                total += entry.stat().st_size
    except OSError as error:
        raise unreadable(f"{field}: {Path(error.filename or folder).name!r} cannot be read", error) from None
    return total
