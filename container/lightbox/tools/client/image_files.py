"""Which files of a folder are images."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".gif", ".webp", ".avif", ".bmp", ".dib"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"),
)

PICTURE_ENDINGS = (
    *IMAGE_ENDINGS,
    *(".heic", ".heif", ".hif", ".jp2", ".jxl", ".psd", ".svg", ".ico"),
    *(".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"),
)
"""Also of pictures that cannot be read: their errors say so."""


@dataclass(frozen=True)
class Folder:
    """The images of a folder and of those in it, in order of their paths, and how many other files there are."""

    images: tuple[Path, ...]
    others: int


def find_images(folder: Path) -> Folder:
    """Find the images by the endings of their names. Hidden files and folders count as nothing."""
    images, others = [], 0
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in IMAGE_ENDINGS and Path(root, name).is_file():  # no device, no pipe
                images.append(Path(root, name))
            else:
                others += 1
    return Folder(tuple(sorted(images)), others)


def counted(others: int) -> str:
    """Return how many files are no images, in words."""
    return f"{others} file{'' if others == 1 else 's'} of other kinds"
