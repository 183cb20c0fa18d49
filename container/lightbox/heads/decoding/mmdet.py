"""Objects as of MMDetection's exports, whose graphs suppress overlaps themselves."""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.heads.decoding.boxes import as_integers, best, most
from lightbox.heads.mmdet import names_of
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row: left, top, right, bottom and a score, and the number of a class."""
    names = names_of({name: array.shape for name, array in outputs.items()})
    assert names is not None, "they fit"
    boxes, labels = (outputs[name] for name in names)
    rows = (Objects(as_integers(of), row[:, 4], row[:, :4]) for row, of in zip(boxes, labels, strict=True))
    return [best(row, options).chosen(slice(most(options))) for row in rows]
