"""Options of codecs: how images are decoded, and the largest size of bodies."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightbox.images.limits import ImageLimits


@dataclass(frozen=True)
class CodecOptions:
    """How images are decoded, and the largest size of bodies in MiB."""

    limits: ImageLimits = field(default_factory=ImageLimits)
    processes: int = 1
    """Number of processes that decode images on this machine's cores."""
    max_body_mb: int = 100
