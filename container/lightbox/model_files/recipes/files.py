"""A model's files as the readers of recipes see them: its notes, and JSON files beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lightbox.base.control_characters import escape
from lightbox.base.literals import foreign_literal
from lightbox.base.machine.links import followed
from lightbox.model.options import Recipe, RecipeError
from lightbox.model.spec import ImageInput, SignatureSpec
from lightbox.model_runtime.access import is_file, pass_lack, read_file

MOST_NAMES, _MOST_BYTES, _MOST_NOTE = 100_000, 4 << 20, 1 << 20
"""Most names of classes in a recipe, bytes of a file with them, and characters of a note in a model's file."""
FROM_TORCH = "NCHW"
"""The layout of exports that leave all sides open, as Optimum's."""


class ModelFiles(NamedTuple):
    """The newest version of a model: its file, or the folder of a SavedModel, and the folders that may describe it."""

    path: Path
    signature: SignatureSpec
    folder: Path
    """Folder of the file."""
    home: Path
    """The model's own folder, which links may not lead out of: ``folder``, or the one above its version."""
    allowed: Sequence[Path] = ()
    """Folders into which links may lead all the same."""
    own: Collection[str] = ()
    """The options that are set."""

    def json(self, name: str) -> tuple[Path, dict[str, Any]] | None:
        """Return a JSON object beside a model's file, or in the folder above, as exporters lay them out, or None.

        Raises RecipeError for a file that is no object, or too large.
        """
        if self.path == self.folder:  # a SavedModel, beside which Keras writes files of these names
            return None
        above = self.folder.parent if self.folder.name == "onnx" else self.home
        for place in dict.fromkeys((self.folder / name, above / name)):
            if followed(place, place.parent, self.allowed) is None or not is_file(place):
                continue
            try:
                found = json.loads(read_file(place, _MOST_BYTES))
            except OSError as error:
                pass_lack(error)
                raise RecipeError(f"{place} cannot be read: {error.strerror}") from None
            except (ValueError, RecursionError) as error:
                raise RecipeError(f"{place} is not JSON: {error}") from None
            if not isinstance(found, dict):
                raise RecipeError(f"{place}: expected an object, got {type(found).__name__}")
            return place, found
        return None

    @property
    def seen_signature(self) -> SignatureSpec:
        """The signature, with the layout of exports that leave it open."""
        return self.signature.with_layout(FROM_TORCH)

    @property
    def image(self) -> ImageInput | None:
        """The input for pixels, None if the model takes no image, or a file that it decodes itself."""
        found = self.seen_signature.image
        return None if found is None or found.encoded else found

    @property
    def has_open_sides(self) -> bool:
        """Whether the input leaves the width or the height of an image open."""
        return self.image is not None and not (self.image.width and self.image.height)


Reader: TypeAlias = Callable[[ModelFiles], Recipe | None]
"""Returns the recipe in a model's files, None if there is none of its library. Raises RecipeError for a broken one."""


def class_names(found: object, source: str, key: str) -> tuple[str, ...]:
    """Return the names of classes in a list, or in an object by number, which counts from 0 without gaps.

    Raises RecipeError, with ``source`` and ``key`` for its place.
    """
    if isinstance(found, dict):
        try:
            by_number = {int(number): str(name) for number, name in found.items()}
        except (TypeError, ValueError):
            raise RecipeError(f"{source}: {key}: expected the numbers of classes as keys") from None
        if sorted(by_number) != list(range(len(by_number))):
            raise RecipeError(f"{source}: {key}: expected the numbers 0 to {len(by_number) - 1}, each once")
        found = [by_number[number] for number in range(len(by_number))]
    if not isinstance(found, list | tuple) or not found or len(found) > MOST_NAMES:
        raise RecipeError(f"{source}: {key}: expected 1 to {MOST_NAMES:,} names of classes")
    return tuple(map(str, found))


def literal(text: str, source: str, key: str) -> Any:
    """Return the value of a literal of Python, as exporters write values into notes. Raises RecipeError."""
    try:
        return foreign_literal(text)
    except ValueError as error:
        raise RecipeError(f"{source}: {key}: {error}") from None


def parsed(parse: Callable[[str], Any], text: str, source: str, key: str) -> Any:
    """Return what a note in a model's file says. Raises RecipeError for a broken one, or a longer one than is read."""
    if len(text) > _MOST_NOTE:
        raise RecipeError(f"{source}: {key}: expected at most {_MOST_NOTE:,} characters, got {len(text):,}")
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{source}: {key}: {said_by(error)}") from None


def said_by(found: object) -> str:
    """Return a name that a file has chosen for a line of the log."""
    return escape(str(found)[:60])
