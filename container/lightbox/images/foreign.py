"""Names bytes that are not an image of an accepted format, with advice."""

from __future__ import annotations

import re

_SEEN = 1024
"""Number of first bytes that are checked."""
_SHOWN = 40
"""Characters of a quoted text."""

RAW = "a camera's RAW file: develop it, and send a JPEG or TIFF"
_FILES = {
    rb".{4}ftyp(?:hei|hev|mif1|msf1)": "HEIC, as iPhones save it: convert it to JPEG",
    rb"(?:.{4}ftypcrx|FUJIFILMCCD-RAW|IIU\0|IIR[OS]|MMOR|\0MRM|FOVb)": RAW,
    rb".{4}ftyp": "a video (MP4 or MOV): send one of its frames",
    rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51": "JPEG 2000: convert it to JPEG or PNG",
    rb"\0\0\0\x0cJXL |\xff\x0a": "JPEG XL: convert it to JPEG or PNG",
    rb"%PDF-": "PDF: render a page to PNG",
    rb"%!PS": "PostScript: render it to PNG",
    rb"8BPS": "a Photoshop file: export it as PNG",
    rb"\0\0[\1\2]\0": "a Windows icon: convert it to PNG",
    rb"\s*<(?:svg|!doctype svg|\?xml)": "SVG or other XML: render a drawing to PNG",
}
"""Images and similar files, which are never a body for a model without images."""
_OTHERS = {
    rb"\s*(?:<!doctype html|<html|<head|<body)": "HTML, such as a web page or an error page",
    rb"PK\x03\x04": "a zip archive",
    rb"\x1f\x8b": "a file compressed with gzip",
    rb"\s*[\[{]": "JSON: its Content-Type is application/json",
    rb"data:image/|/9j/|iVBORw0KGgo|R0lGOD|UklGR": "base64 of an image: send the file's bytes, or in JSON "
    '{"b64": ...}; with /v2 binary_data_size',
    rb"\x93NUMPY": "a NumPy array: its Content-Type is application/x-npy",
}


def file_format(body: bytes | memoryview) -> str | None:
    """Return the description of an image, a video or a document of another format; None for others."""
    return _match(_FILES, bytes(body[:_SEEN]))


def describe(body: bytes | memoryview) -> str:
    """Return a description of bytes for their sender; if unknown, the first of them."""
    start = bytes(body[:_SEEN])
    if not start:
        return "nothing: it is empty"
    return _match(_FILES | _OTHERS, start) or _shown(start)


def _match(kinds: dict[bytes, str], start: bytes) -> str | None:
    return next((what for pattern, what in kinds.items() if re.match(pattern, start, re.DOTALL | re.IGNORECASE)), None)


def _shown(start: bytes) -> str:
    text = start.decode(errors="ignore")[:_SHOWN]
    if text.encode() == start[: len(text.encode())] and all(c.isprintable() or c.isspace() for c in text):
        return f"the text {text!r}"
    return f"bytes that begin with {start[:8].hex(' ')}"
