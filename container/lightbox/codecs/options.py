"""How bodies are read and written, and how large they may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightbox.images.limits import ImageLimits


@dataclass(frozen=True)
class CodecOptions:
    """How images are decoded, and how large bodies may be, in MiB."""

    limits: ImageLimits = field(default_factory=ImageLimits)
    processes: int = 1
    """How many processes decode images on this machine's cores."""
    max_body_mb: int = 100
