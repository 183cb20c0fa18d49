"""``lightbox predict --coco``: the objects of all rows as COCO's results, which ``pycocotools`` evaluates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from lightbox.codecs.coco import image_id, results
from lightbox.codecs.json_text import from_json
from lightbox.tools.offline.rows import Row, reason
from lightbox.tools.offline.targets import TargetError


class _Image(BaseModel):
    id: int | str
    file_name: str


class _Category(BaseModel):
    id: int
    name: str


class _DataSet(BaseModel):
    images: list[_Image]
    categories: list[_Category]


_DATA_SET = TypeAdapter(_DataSet)


class Ids(NamedTuple):
    """The ids of a data set: of images by file name, of categories by name."""

    images: dict[str, int | str]
    categories: dict[str, int]

    @classmethod
    def of(cls, annotations: str) -> Ids:
        """Return those of a file of annotations. Raises TargetError."""
        try:
            found = _DATA_SET.validate_json(Path(annotations).read_bytes())
        except OSError as error:
            raise TargetError(f"--annotations {annotations}: cannot be read: {reason(error)}") from error
        except ValidationError as error:
            raise TargetError(
                f"--annotations {annotations}: expected COCO's images with id and file_name, and categories with id "
                f"and name: {error.errors()[0]['msg']}"
            ) from None
        images = dict[str, int | str]()
        times = Counter(PurePosixPath(image.file_name).name for image in found.images)
        for image in found.images:
            images[image.file_name] = image.id
            name = PurePosixPath(image.file_name).name
            if times[name] == 1:
                images.setdefault(name, image.id)
        return cls(images, {category.name: category.id for category in found.categories})

    def image(self, path: str) -> int | str | None:
        """Return the id of an image by its path, or by the name of its file; None if there is none."""
        return self.images.get(path, self.images.get(PurePosixPath(path).name))


class CocoResults:
    """COCO's results in the file ``to``, with the ids of ``annotations``, or those that the answers have themselves."""

    def __init__(self, to: str, annotations: str | None) -> None:
        self.to = to
        self._ids = Ids.of(annotations) if annotations else None
        self.problems: list[str] = []
        """Sentences about what is left out."""
        if not Path(to).absolute().parent.is_dir():
            raise TargetError(f"--coco {to}: the folder {Path(to).absolute().parent} does not exist")

    def write(self, rows: Iterable[Row]) -> None:
        """Write the objects of all rows, one result on each line. Raises TargetError."""
        unknown, without, others = 0, Counter[str](), 0
        scratch = Path(f"{self.to}.part")
        try:
            with scratch.open("wb") as file:
                separator = b"[\n"
                for row in rows:
                    items = _objects(row)
                    if items is None:
                        others += row.response is not None
                        continue
                    image = self._ids.image(row.path) if self._ids else image_id(row.path)
                    if image is None:
                        unknown += 1
                        continue
                    for item in items:
                        if (category := self._category(item)) is None:
                            without[str(item.get("label", item["class"]))] += 1
                            continue
                        for result in results(item, image, category):
                            file.write(separator + orjson.dumps(result))
                            separator = b",\n"
                file.write(b"[]\n" if separator == b"[\n" else b"\n]\n")
            scratch.replace(self.to)
        except OSError as error:
            raise TargetError(f"--coco {self.to}: cannot be written: {reason(error)}") from error
        self.problems = [*_said(unknown, without, others)]

    def _category(self, item: dict[str, Any]) -> int | None:
        return self._ids.categories.get(item.get("label", "")) if self._ids else item["class"]


def _said(unknown: int, without: Counter[str], others: int) -> Iterator[str]:
    if unknown:
        yield f"--coco leaves out pictures that --annotations does not have: {unknown:,}"
    if without:
        names = ", ".join(name for name, _ in without.most_common(5))
        count = f"{without.total():,}, as {names}"
        yield f"--coco leaves out objects whose labels are no categories of --annotations: {count}"
    if others:
        yield f"--coco leaves out pictures whose answers are no objects: {others:,}"


def _objects(row: Row) -> list[dict[str, Any]] | None:
    """Return the objects of a row, None if it has an error or another answer."""
    try:
        found = from_json((row.response or "null").encode())
    except ValueError:
        return None
    return found if isinstance(found, list) and all(map(_is_object, found)) else None


def _is_object(item: Any) -> bool:
    box = item.get("box") if isinstance(item, dict) else None
    are_numbers = isinstance(box, list) and len(box) == 4 and all(isinstance(side, int | float) for side in box)
    return are_numbers and isinstance(item.get("class"), int) and "score" in item
