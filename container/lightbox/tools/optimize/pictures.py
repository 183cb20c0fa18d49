"""The pictures of ``lightbox optimize``, and what is true of them."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lightbox.images.decode import is_image

MOST_CALIBRATING, LEAST_CALIBRATING = 300, 20
_HEAD = 64
_TABLE, _COCO = "labels.csv", "annotations.json"


class PicturesRefused(Exception):
    """The pictures cannot be used; the message is one sentence."""


class Picture(NamedTuple):
    """A picture and what is true of it."""

    path: str
    digest: str
    label: str | None = None
    """The name or number of its class."""
    objects: list[dict[str, Any]] | None = None
    """Its objects: ``class``, ``label`` and ``box`` in pixels."""


class Pictures(NamedTuple):
    """The pictures that are compared, and others that calibrate."""

    comparing: list[Picture]
    calibrating: list[Picture]


def find_pictures(folder: Path) -> list[Picture]:
    """Return the pictures below a folder, equal ones once, in the random order of their digests.

    Labels are the names of folders, or the column ``class`` beside ``file`` of a CSV file: ``labels.csv`` in the
    folder, or the folder's name with ``.csv``. Objects are COCO's: ``annotations.json``, or that name with ``.json``.
    Raises PicturesRefused and OSError.
    """
    if not folder.is_dir():
        raise PicturesRefused(f"PICTURES: {folder} is no folder")
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in sorted(folder.rglob("*")) if _is_one(path)}
    try:
        labels, objects = _labels(folder), _objects(folder)
    except (ValueError, KeyError, TypeError) as error:
        raise PicturesRefused(f"PICTURES: the labels or annotations of {folder} cannot be read: {error!r}") from None
    result = []
    for digest, path in sorted(found.items()):
        name = path.relative_to(folder).as_posix()
        label = labels.get(name, labels.get(path.name)) if labels else None
        if not labels and not objects and path.parent != folder:
            label = path.parent.name
        result.append(Picture(str(path), digest, label, objects.get(name, objects.get(path.name))))
    return result


def divided(found: Sequence[Picture], budget: float) -> Pictures:
    """Return the pictures to compare and to calibrate. Raises PicturesRefused if they are too few for a budget.

    Without a difference in N pictures, less than 3 / N of all differ, with a probability of 95 %.
    """
    needed = math.ceil(3 / budget - 1e-9)
    if len(found) < needed:
        shown = f"; {len(found)} can show {3 / len(found):.2%}" if len(found) > 3 else ""
        raise PicturesRefused(
            f"--budget: {budget:.3%} takes at least {needed:,} different pictures, got {len(found):,}{shown}"
        )
    count = max(needed, len(found) - MOST_CALIBRATING)
    return Pictures([*found[:count]], [*found[count:]])


def _is_one(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return is_image(file.read(_HEAD))


def _beside(folder: Path, name: str) -> Path | None:
    places = (folder / name, folder.with_suffix(Path(name).suffix))
    return next((place for place in places if place.is_file()), None)


def _labels(folder: Path) -> Mapping[str, str]:
    if (table := _beside(folder, _TABLE)) is None:
        return {}
    with table.open(newline="") as file:
        return {row["file"]: row["class"] for row in csv.DictReader(file)}


def _objects(folder: Path) -> Mapping[str, list[dict[str, Any]]]:
    """Return the objects of each picture; groups, which COCO calls crowds, are left out."""
    if (place := _beside(folder, _COCO)) is None:
        return {}
    content = json.loads(place.read_bytes())
    kinds = sorted(content["categories"], key=lambda kind: int(kind["id"]))
    named = {kind["id"]: {"class": number, "label": kind["name"]} for number, kind in enumerate(kinds)}
    names = {image["id"]: image["file_name"] for image in content["images"]}
    result: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for item in content["annotations"]:
        if not item.get("iscrowd"):
            left, top, width, height = item["bbox"]
            box = [left, top, left + width, top + height]
            result[names[item["image_id"]]].append({**named[item["category_id"]], "box": box})
    return result
