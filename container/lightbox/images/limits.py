"""How much of a machine the images of a request may take. Every limit is known before the pixels are decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lightbox.errors import TooLarge

MAX_PIXELS_SETTING = "LIGHTBOX_MAX_IMAGE_PIXELS"
REQUEST_PIXELS_SETTING = "LIGHTBOX_MAX_REQUEST_PIXELS"
MAX_SIDE_SETTING = "LIGHTBOX_MAX_IMAGE_SIDE"
MAX_MEMORY_SETTING = "LIGHTBOX_MAX_IMAGE_MEMORY_MB"


@dataclass(frozen=True)
class ImageLimits:
    """Limits of one image, and of the images of one request; beyond them it is refused with TooLarge (413)."""

    max_pixels: int = 50_000_000
    """Width times height. LIGHTBOX_MAX_IMAGE_PIXELS."""

    max_request_pixels: int = 500_000_000
    """Pixels of all images of a request together. LIGHTBOX_MAX_REQUEST_PIXELS."""

    pixels_before: int = 0
    """Pixels of the request's images that came before this one."""

    max_side: int = 65_535
    """Pixels in one direction; resizing takes 32 bytes for each. LIGHTBOX_MAX_IMAGE_SIDE."""

    max_memory_mb: int = 400
    """Peak of decoding in MB, as estimated from the header. LIGHTBOX_MAX_IMAGE_MEMORY_MB."""

    header_cpu_seconds: float = 1.0
    """Processor time for reading what lies before the pixels; only a hostile file comes near it."""

    cpu_seconds: float = 4.0
    """Processor time for reading the whole file, as far as it is read piece by piece."""

    def after(self, pixels: int) -> ImageLimits:
        """Return the limits of a request's next image, when those before it have ``pixels`` together."""
        return replace(self, pixels_before=pixels) if pixels else self

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
        if (together := self.pixels_before + width * height) > self.max_request_pixels:
            raise TooLarge(
                f"The images of the request up to this one have {together:,} pixels; "
                f"at most {self.max_request_pixels:,} are accepted ({REQUEST_PIXELS_SETTING})."
            )

    def check_memory(self, estimate: int) -> None:
        """Raise TooLarge if decoding, by an ``estimate`` in bytes, takes more than ``max_memory_mb``."""
        if estimate > self.max_memory_mb * 1_000_000:
            raise TooLarge(
                f"Decoding the image would take about {estimate // 1_000_000:,} MB; "
                f"at most {self.max_memory_mb:,} MB are allowed ({MAX_MEMORY_SETTING})."
            )
