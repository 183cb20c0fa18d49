"""Draws the classes or the objects of an image into its pixels.

Colors are those of Okabe and Ito, which people with color blindness tell apart. Each has an edge of black or white,
whichever is further from it: one of both is seen on any background.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ImageDraw, ImageFont
from PIL.Image import Image, Resampling, blend, fromarray, frombuffer, new

from lightbox.images.lazy_image import Pixels
from lightbox.images.preparation import Size
from lightbox.images.resize import Rgbx
from lightbox.model_runtime.deadline import check_deadline

Item = Mapping[str, Any]
"""A class or an object, with the keys that JSON responses have."""
Color = tuple[int, int, int]
COLORS: Sequence[Color] = (
    *((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)),
    *((0, 114, 178), (213, 94, 0), (204, 121, 167)),
)
_PALETTE = bytes(value for number in range(256) for value in COLORS[number % len(COLORS)])
BLACK, WHITE = (0, 0, 0), (255, 255, 255)
MOST_JPEG = 65_500
"""Pixels of a side that libjpeg writes."""
_QUALITY = 90
_LEAST_SIDE = 256
"""An image whose longer side is shorter is enlarged, so that words fit."""
_OF_MASKS = 110
"""How much of 255 masks cover."""
_BEHIND_WORDS = 170
_ROWS_AT_ONCE = 128
_LEAST_SURE = 0.25
"""Least score of a keypoint that is drawn."""
_MOST_LETTERS, _MOST_LINES = 40, 20
_TONES: Sequence[Color] = ((0, 34, 78), (66, 78, 108), (125, 124, 120), (187, 175, 113), (254, 232, 56))
"""From low to high, as in cividis, which people with color blindness see as others do."""
_TONED = 0.7
_MOST_UINT8, _MOST_UINT16 = 255, 65535
_MIDDLE = 0.179
"""The luminance from which black is seen better than white (WCAG 2)."""


class _Pen(NamedTuple):
    drawing: ImageDraw.ImageDraw
    picture: Image
    height: int
    """Of letters."""
    width: int
    """Of lines."""
    size: Size
    place: Callable[[Sequence[float]], list[tuple[float, float]]]
    """Returns points of x and y in turn, in pixels of the picture."""


class Marks:
    """Where an image's objects are: of each pixel the color of the first object."""

    def __init__(self, size: Size, origin: tuple[int, int]) -> None:
        """``origin`` is the corner of the image of this size in that of which the places are."""
        self._origin, self._size = origin, size
        self._numbers: npt.NDArray[np.uint8] | None = None  # from 1

    def add(self, number: int, left: int, top: int, pixels: npt.NDArray[np.bool_]) -> None:
        """Mark where an object of a class is, but for pixels of others: ``pixels`` [columns, rows] from a place on."""
        if self._numbers is None:
            self._numbers = np.zeros(self._size[::-1], np.uint8)
        x, y = left - self._origin[0], top - self._origin[1]
        columns, rows = pixels.shape
        part = self._numbers[max(0, y) : max(0, y + rows), max(0, x) : max(0, x + columns)]
        seen = pixels.T[max(0, -y) :, max(0, -x) :][: part.shape[0], : part.shape[1]]
        np.copyto(part, 1 + number % len(COLORS), where=seen & (part == 0))

    def color(self, picture: Image) -> None:
        """Color an image where objects are, some rows at a time: they stay in the processor's cache."""
        if self._numbers is None:
            return
        for top in range(0, len(self._numbers), _ROWS_AT_ONCE):
            numbers = self._numbers[top : top + _ROWS_AT_ONCE]
            if numbers.any():
                colors = _colored(numbers - np.uint8(1)).convert(picture.mode)
                picture.paste(colors, (0, top), fromarray((numbers > 0) * np.uint8(_OF_MASKS)))


def drawn(
    pixels: Pixels,
    items: Sequence[Item],
    origin: tuple[int, int] = (0, 0),
    classes: npt.NDArray[Any] | None = None,
    marks: Marks | None = None,
) -> Image:
    """Return an image with its classes or objects, the best ones over the others; draw into its memory if it is RGBX.

    ``origin`` is the image's corner in that of which the places are, ``classes`` the map that masks are of. ``marks``
    has the masks that are in no item.
    """
    picture = _canvas(pixels)
    if classes is not None:
        picture = blend(picture, _colored(classes).convert(picture.mode), _OF_MASKS / 255)
    else:
        marks = marks or Marks(pixels.size, origin)
        for item in items:
            if "mask" in item:
                check_deadline()
                marks.add(item["class"], *_pixels(item))
        marks.color(picture)
    times = math.ceil(_LEAST_SIDE / max(picture.size))
    if times > 1:
        picture = picture.resize((times * picture.width, times * picture.height), Resampling.NEAREST)
    far = 4 * max(picture.size)  # a corner may lie far outside

    def place(points: Sequence[float]) -> list[tuple[float, float]]:
        found = [
            max(-far, min(far, times * (value - origin[axis % 2]))) if math.isfinite(value) else -far
            for axis, value in enumerate(points)
        ]
        return list(zip(found[::2], found[1::2], strict=True))

    longer = max(picture.size)
    pen = _Pen(ImageDraw.Draw(picture), picture, max(12, longer // 60), max(2, longer // 400), picture.size, place)
    boxed = [item for item in reversed(items) if "box" in item]
    for item in boxed:
        check_deadline()
        _outline(item, pen)
    for item in boxed:
        _name(item, pen)
    if not boxed and items:
        _caption(items[:_MOST_LINES], pen)
    return picture


def toned(pixels: Pixels, values: npt.NDArray[Any]) -> Image:
    """Return a copy of an image, colored by a map of numbers of its size."""
    tones = fromarray(np.rint(_levels(values) * _MOST_UINT8).astype(np.uint8))
    steps, colors = np.linspace(0, len(_TONES) - 1, _MOST_UINT8 + 1), np.array(_TONES)
    palette = [np.interp(steps, range(len(_TONES)), colors[:, channel]) for channel in range(3)]
    tones.putpalette(np.stack(palette, axis=1).astype(np.uint8).tobytes())
    picture = _canvas(pixels)
    return blend(picture, tones.convert(picture.mode), _TONED)


def map_file(values: npt.NDArray[Any]) -> bytes:
    """Return a map as PNG: classes with a palette, more than 256 in 16 bits; numbers in 16 bits, the least as 0."""
    if values.dtype == np.uint8:
        return encoded(_colored(values), "PNG")
    whole = values if values.dtype == np.uint16 else np.rint(_levels(values) * _MOST_UINT16).astype(np.uint16)
    return encoded(fromarray(whole), "PNG")


def _colored(classes: npt.NDArray[Any]) -> Image:
    picture = fromarray(classes.astype(np.uint8, copy=False))  # modulo 256
    picture.putpalette(_PALETTE)
    return picture


def bounds_of(values: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the least and the largest number of a map."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _levels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    least, largest = bounds_of(values)
    levels = values.astype(np.float32)
    levels -= np.float32(least)
    levels /= np.float32((largest - least) or 1)
    return np.nan_to_num(levels, copy=False).clip(0, 1)


def _canvas(pixels: Pixels) -> Image:
    """Return an image to draw on: a copy, unless its memory can be written."""
    if not isinstance(pixels, Rgbx):
        return pixels.convert("RGB")
    memory = pixels.pixels if pixels.pixels.flags.writeable else pixels.pixels.copy()
    picture = frombuffer("RGBX", pixels.size, memory, "raw", "RGBX", 0, 1)
    picture.readonly = 0
    return picture


def encoded(picture: Image, form: str) -> bytes:
    """Return an image as a file: ``JPEG``, or ``PNG`` with fast compression."""
    file = BytesIO()
    picture = picture if form == "JPEG" or picture.mode != "RGBX" else picture.convert("RGB")
    picture.save(file, form, **({"quality": _QUALITY} if form == "JPEG" else {"compress_level": 1}))
    return file.getvalue()


def color_of(number: int) -> tuple[Color, Color]:
    """Return the color of a class, and that of its edge and of words on it."""
    color = COLORS[number % len(COLORS)]
    linear = [value / 3294.6 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in color]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return color, BLACK if luminance > _MIDDLE else WHITE


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def _pixels(item: Item) -> tuple[int, int, npt.NDArray[np.bool_]]:
    """Return a part of an object's mask from its JSON: left, top, and pixels [columns, rows]."""
    if isinstance(item["mask"], list):
        corners = [(np.array(outline[0::2]), np.array(outline[1::2])) for outline in item["mask"]]
        left, top = (math.floor(min((one[axis].min() for one in corners), default=0)) for axis in (0, 1))
        right, bottom = (math.ceil(max((one[axis].max() for one in corners), default=0)) for axis in (0, 1))
        outlines = new("1", (bottom - top, right - left))
        for across, down in corners:
            ImageDraw.Draw(outlines).polygon(np.stack([down - top, across - left], axis=1).ravel().tolist(), fill=1)
        return left, top, np.asarray(outlines)
    height, width = item["mask"]["size"]
    box = item.get("box", (0, 0, width, height))
    left, top = (max(0, math.floor(edge)) for edge in box[:2])
    right, bottom = max(left, min(width, math.ceil(box[2]))), max(top, min(height, math.ceil(box[3])))
    # Run lengths go by column: those of the box's columns are one stretch.
    ends = np.cumsum(item["mask"]["counts"]).clip(left * height, right * height)
    runs = np.diff(ends, prepend=left * height)
    seen = np.repeat(np.arange(len(runs)) % 2 > 0, runs).reshape(right - left, height)
    return left, top, seen[:, top:bottom]


def _outline(item: Item, pen: _Pen) -> None:
    color, edge = color_of(item["class"])
    wide = pen.width + 2 * max(1, pen.width // 2)
    if "corners" in item:
        corners = pen.place([value for point in item["corners"] for value in point])
        for width, shown in ((wide, edge), (pen.width, color)):
            pen.drawing.line([*corners, *corners[:2]], shown, width, joint="curve")
    else:
        (left, top), (right, bottom) = pen.place(item["box"])
        out = (wide - pen.width) // 2
        pen.drawing.rectangle((left - out, top - out, right + out, bottom + out), outline=edge, width=wide)
        pen.drawing.rectangle((left, top, right, bottom), outline=color, width=pen.width)
    for point in item.get("keypoints", ()):
        if len(point) < 3 or point[2] >= _LEAST_SURE:
            (center,) = pen.place(point[:2])
            pen.drawing.circle(center, pen.width + max(1, pen.width // 2) + 1, edge)
            pen.drawing.circle(center, pen.width + 1, color)


def _name(item: Item, pen: _Pen) -> None:
    """Write an object's name over its box, or inside if there is no room above."""
    color, edge = color_of(item["class"])
    words = _written(_words(item), pen.height)
    ((left, top), _) = pen.place(item["box"])
    left = round(max(0, min(left - pen.width, pen.size[0] - words.width - 4)))
    top = top - pen.width - words.height if top - pen.width >= words.height else min(top, pen.size[1] - words.height)
    top = round(max(0, top))
    pen.picture.paste(color, (left, top, left + words.width + 4, top + words.height))
    pen.picture.paste(edge, (left + 2, top), words)


def _caption(items: Sequence[Item], pen: _Pen) -> None:
    """Write the classes of an image into its corner, in white on dark, with the color of each that has a mask."""
    lines = [_written(_words(item), pen.height) for item in items]
    room, line = pen.width + 4, lines[0].height
    start = room + (line if "mask" in items[0] else 0)
    right, bottom = start + max(words.width for words in lines) + room, len(lines) * line + 2 * room
    pen.picture.paste(BLACK, (0, 0), new("L", (min(right, pen.size[0]), min(bottom, pen.size[1])), _BEHIND_WORDS))
    for number, (item, words) in enumerate(zip(items, lines, strict=True)):
        top = room + number * line
        pen.picture.paste(WHITE, (start, top), words)
        if "mask" in item:
            color, edge = line // 6, room + line - line // 3
            pen.picture.paste(color_of(item["class"])[0], (room, top + color, edge, top + line - color))


@lru_cache(maxsize=4096)
def _letter(letter: str, height: int) -> npt.NDArray[np.uint8]:
    """Return how a letter covers its place: a font takes as long for a line as all other drawing."""
    font = _font(height)
    place = new("L", (max(1, round(font.getlength(letter))), _line(height)))
    ImageDraw.Draw(place).text((0, 0), letter, 255, font)
    return np.asarray(place)


def _written(words: str, height: int) -> Image:
    """Return how a line of words covers its place."""
    return fromarray(np.concatenate([_letter(letter, height) for letter in words], axis=1))


def _line(height: int) -> int:
    return math.ceil(1.25 * height)


def _words(item: Item) -> str:
    name = str(item.get("label") or f"class {item['class']}")
    name = " ".join(name.split())
    return f"{name[:_MOST_LETTERS]}{'…' * (len(name) > _MOST_LETTERS)} {_amount(item)}"


def _amount(item: Item) -> str:
    return f"{item['score']:.2f}" if "score" in item else f"{100 * item['share']:.1f} %"
