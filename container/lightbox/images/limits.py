"""How much of a machine one image may take. Every limit is known before the pixels are decoded."""

from __future__ import annotations

from dataclasses import dataclass

from lightbox.errors import TooLarge

MAX_PIXELS_SETTING = "LIGHTBOX_MAX_IMAGE_PIXELS"
MAX_SIDE_SETTING = "LIGHTBOX_MAX_IMAGE_SIDE"
MAX_MEMORY_SETTING = "LIGHTBOX_MAX_IMAGE_MEMORY_MB"


@dataclass(frozen=True)
class ImageLimits:
    """Limits of one image; beyond them it is refused with TooLarge (413)."""

    max_pixels: int = 50_000_000
    """Width times height. LIGHTBOX_MAX_IMAGE_PIXELS."""

    max_side: int = 65_535
    """Pixels in one direction; resizing takes 32 bytes for each. LIGHTBOX_MAX_IMAGE_SIDE."""

    max_memory_mb: int = 400
    """Peak of decoding in MB, as estimated from the header. LIGHTBOX_MAX_IMAGE_MEMORY_MB."""

    header_cpu_seconds: float = 1.0
    """Processor time for reading what lies before the pixels; only a hostile file comes near it."""

    cpu_seconds: float = 4.0
    """Processor time for reading the whole file, as far as it is read piece by piece."""

    def check_size(self, width: int, height: int) -> None:
        """Raise TooLarge if an image of ``width`` x ``height`` pixels is beyond the limits."""
        if width * height > self.max_pixels:
            raise TooLarge(
                f"The image has {width} x {height} = {width * height:,} pixels; "
                f"at most {self.max_pixels:,} are accepted ({MAX_PIXELS_SETTING})."
            )
        if max(width, height) > self.max_side:
            raise TooLarge(
                f"The image has {width} x {height} pixels; "
                f"at most {self.max_side:,} are accepted in one direction ({MAX_SIDE_SETTING})."
            )

    def check_memory(self, estimate: int) -> None:
        """Raise TooLarge if decoding, by an ``estimate`` in bytes, takes more than ``max_memory_mb``."""
        if estimate > self.max_memory_mb * 1_000_000:
            raise TooLarge(
                f"Decoding the image would take about {estimate // 1_000_000:,} MB; "
                f"at most {self.max_memory_mb:,} MB are allowed ({MAX_MEMORY_SETTING})."
            )
