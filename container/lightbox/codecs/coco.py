"""The objects of images as COCO's results: what ``pycocotools`` loads beside the annotations of a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar

from typing_extensions import override

from lightbox.base.errors import NotAcceptable
from lightbox.codecs.base import Response, Writer
from lightbox.codecs.json_text import from_json, named_rows, to_json
from lightbox.model.spec import Prediction
from lightbox.openapi.schemas import TEXT, Schema, any_of, array, struct

_DIGITS = 3
"""Decimal places of pixels."""
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}


class CocoWriter(Writer):
    """One list with the objects of all images."""

    media_types: ClassVar[tuple[str, ...]] = ("application/coco+json",)
    needs_names: ClassVar[bool] = True
    schema: ClassVar[Schema] = array(
        struct(
            {
                "image_id": any_of([_WHOLE, TEXT]),
                "category_id": _WHOLE,
                "bbox": array(_NUMBER, 4, 4) | {"description": "Left, top, width, height in the image."},
                "score": _NUMBER,
            },
            {
                "segmentation": any_of([struct({"size": array(_WHOLE, 2, 2), "counts": array(_WHOLE)}), array({})]),
                "keypoints": array(_NUMBER) | {"description": "x, y and score of each in turn."},
            },
        )
    )

    @override
    def encode(self, prediction: Prediction) -> Response:
        names, found = prediction.file_names, list[dict[str, Any]]()
        for number, row in enumerate(named_rows(prediction, self)):
            items = from_json(row)
            if any("box" not in item for item in items):
                raise NotAcceptable(f"Accept: {self.media_types[0]} holds objects, and this model gives classes")
            image = image_id(names[number]) if number < len(names) and names[number] else number
            found += (result for item in items for result in results(item, image, item["class"]))
        return Response(to_json(found), self.media_types[0])


def image_id(path: str) -> int | str:
    """Return the id of an image by its file: the number that is its name, as in COCO, else the path."""
    name = PurePath(path).stem
    return int(name) if name.isascii() and name.isdigit() else path


def results(item: Mapping[str, Any], image: int | str, category: int) -> Iterator[dict[str, Any]]:
    """Yield the result for an object of a JSON response; none for a mask without pixels, which has no outline."""
    left, top, right, bottom = item["box"]
    box = [round(value, _DIGITS) for value in (left, top, right - left, bottom - top)]
    found = {"image_id": image, "category_id": category, "bbox": box, "score": item["score"]}
    if "mask" in item:
        found["segmentation"] = item["mask"]
        if not item["mask"]:
            return
    if "keypoints" in item:
        found["keypoints"] = flat_points(item["keypoints"])
    yield found


def flat_points(points: Sequence[Sequence[float]]) -> list[float]:
    """Return keypoints as COCO has them: three numbers of each, the last one 1 where there is no score."""
    return [value for point in points for value in (*point, *[1] * (3 - len(point)))]
