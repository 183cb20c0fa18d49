"""The transparent colour of a PNG (tRNS), in the units of the pixels that Pillow gives."""

from __future__ import annotations

from PIL.PngImagePlugin import PngImageFile

_GREY_BITS = {"L": 8, "L;2": 2, "L;4": 4}


def correct_key(image: PngImageFile) -> None:
    """Scale the key as Pillow scales the pixels; to be called between open and load.

    Pillow 13.0 widens 2 and 4 bit greys to 8 bits and cuts 16-bit colours to their upper 8, but compares them
    with the key as it stands in the file, so that the wrong pixels, or none, would become transparent.
    """
    key = image.info.get("transparency")
    stored = image.tile[0].args if image.tile else None
    if isinstance(key, int) and stored in _GREY_BITS:
        levels = 1 << _GREY_BITS[str(stored)]
        image.info["transparency"] = key % levels * (255 // (levels - 1))
    elif isinstance(key, tuple):
        image.info["transparency"] = tuple(v >> 8 if stored == "RGB;16B" else v & 255 for v in key)
