"""Options of codecs: how images are decoded, and the largest size of bodies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from lightbox.base.settings import Settings
from lightbox.images.limits import ImageLimits


@dataclass(frozen=True)
class CodecOptions:
    """How images are decoded, and the largest size of bodies in MiB."""

    limits: ImageLimits = field(default_factory=ImageLimits)
    processes: int = 1
    """Number of processes that decode images on this machine's cores."""
    max_body_mb: int = 100
    image_memory: float = math.inf
    """Bytes for the images that all processes decode at a time."""
    run_dir: Path | None = None
    """Folder where these processes meet; None for a single one."""

    @classmethod
    def of(cls, settings: Settings) -> CodecOptions:
        """Return the options of a single process with these settings."""
        return cls(ImageLimits.of(settings.max_image_pixels), max_body_mb=settings.max_body_mb)
