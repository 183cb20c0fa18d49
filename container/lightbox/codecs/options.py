"""How bodies are read and written, and how large they may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightbox.images.limits import ImageLimits


@dataclass(frozen=True)
class ImageOptions:
    """How images are decoded and resized."""

    limits: ImageLimits = field(default_factory=ImageLimits)
    upright: bool = True
    """Rotate images as their EXIF orientation says."""
    fast_decode: bool = False
    """Decode large JPEGs at reduced scale."""
    compiled: bool = True
    """Use the compiled resize and simplejpeg where they are there; the pixels are the same."""
    processes: int = 1
    """How many processes decode images on this machine's cores."""


@dataclass(frozen=True)
class CodecOptions:
    """How bodies are read and written, and how large they may be, in MiB."""

    images: ImageOptions = field(default_factory=ImageOptions)
    max_body_mb: int = 100
    max_text_mb: int = 100
    lines_as_document: bool = False
    """Answer ``application/jsonlines`` with the whole document on one line, as AWS's container does."""
