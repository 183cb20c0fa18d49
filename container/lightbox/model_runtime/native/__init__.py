"""Parts compiled from C, which use nothing of Python: a resize for images, and long lists of numbers as JSON.

``make native`` compiles it. Without it Pillow and Python do the same, to the same bits, and take longer.
"""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).with_name("liblightbox.so.1")
"""Python would import a file that ends with .so as a module."""
