"""``lightbox predict --draw``: each photo with its answer, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from lightbox.base.errors import LightboxError
from lightbox.codecs.json_text import from_json
from lightbox.images.decode import decode_rgb
from lightbox.images.drawing import drawn, encoded
from lightbox.images.limits import ImageLimits
from lightbox.model_runtime.cores import available_cores
from lightbox.tools.offline.rows import Row, in_order, reason
from lightbox.tools.offline.storage import S3_SCHEME
from lightbox.tools.offline.targets import TargetError

_JPEG = (".jpg", ".jpeg")


class DrawnPhotos:
    """Draws answers into the photos of a run, which it keeps until their row comes."""

    def __init__(self, folder: str, limits: ImageLimits) -> None:
        self._folder, self._limits = Path(folder), limits
        self._photos: dict[str, bytes] = {}
        self.undrawn = 0
        """The number of photos whose answer has no classes or objects."""

    def kept(self, images: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Yield images on their way to the model."""
        for path, content in images:
            if isinstance(content, bytes):
                self._photos[path] = content
            yield path, content

    def drawing(self, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
        """Yield rows whose photo is written. An error of ``rows`` is raised after all rows before it."""
        failed = list[Exception]()

        def answered() -> Iterator[Row]:
            try:
                yield from rows()
            except Exception as error:
                failed.append(error)

        yield from in_order(self._draw, answered(), available_cores())
        if failed:
            raise failed[0]

    def _draw(self, row: Row) -> Row:
        photo = self._photos.pop(row.path, None)
        if photo is None or row.response is None:
            return row
        try:
            picture = encoded(drawn(decode_rgb(photo, self._limits), from_json(row.response.encode())), "JPEG")
        except (LightboxError, LookupError, TypeError, ValueError, AttributeError):  # an answer of another form
            self.undrawn += 1
            return row
        file = self._folder / file_of(row.path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(picture)
        except OSError as error:
            raise TargetError(f"--draw: {file}: cannot be written: {reason(error)}") from error
        return row


def file_of(path: str) -> str:
    """Return the name below the folder for a photo's path in its source, which may lead outside of it."""
    parts = PurePosixPath(path.removeprefix(S3_SCHEME)).parts
    name = "/".join("_" if part == ".." else part for part in parts if part != "/")
    return name if name.lower().endswith(_JPEG) else f"{name}.jpg"
