"""Typed columns of a table, beside the response: the classes or objects of an image, in lists of the same length."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lightbox.codecs.json_text import from_json

_BEGINNINGS = ('[{"label":', '[{"class":')
"""How classes and objects begin: all other responses, such as tensors, are not read again."""


class _RunLengths(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: list[int] = Field(min_length=2, max_length=2)
    counts: list[int]


class _Item(BaseModel):
    model_config = ConfigDict(strict=True)

    label: str | None = None
    number: int = Field(alias="class")
    score: float
    box: list[float] | None = None
    mask: _RunLengths | None = None
    polygons: list[list[int]] | None = None
    keypoints: list[list[float]] | None = None
    corners: list[list[float]] | None = None


_ITEMS = TypeAdapter(list[_Item])
COLUMNS = ("label", "class", "score", "box", "mask", "polygons", "keypoints", "corners")
"""``mask`` has run lengths, ``polygons`` outlines in their place."""


def typed(response: str | None) -> dict[str, list[Any] | None]:
    """Return the columns of a response: lists with an item for each class or object; None for what it does not have."""
    nothing = dict[str, list[Any] | None].fromkeys(COLUMNS)
    if response == "[]":
        return nothing | {"class": [], "score": [], "box": []}
    if response is None or not response.startswith(_BEGINNINGS):
        return nothing
    given = from_json(response.encode("utf-8", "surrogateescape"))
    try:
        items = _ITEMS.validate_python([_with_polygons(item) for item in given])
    except ValidationError:  # a document of user code
        return nothing
    rows = [item.model_dump(by_alias=True) for item in items]
    return {name: column if any(item is not None for item in column) else None for name, column in _columns(rows)}


def _with_polygons(item: Any) -> Any:
    if isinstance(item, dict) and isinstance(item.get("mask"), list):
        return {**item, "mask": None, "polygons": item["mask"]}
    return item


def _columns(rows: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    return [(name, [row[name] for row in rows]) for name in COLUMNS]


def arrow_types() -> dict[str, Any]:
    """Return pyarrow's type of each column."""
    import pyarrow as pa

    whole, number = pa.int64(), pa.float64()
    points = pa.list_(pa.list_(number))
    run_lengths = pa.struct({"size": pa.list_(whole), "counts": pa.list_(whole)})
    outlines = pa.list_(pa.list_(whole))
    types = (pa.string(), whole, number, pa.list_(number), run_lengths, outlines, points, points)
    return {name: pa.list_(kind) for name, kind in zip(COLUMNS, types, strict=True)}
