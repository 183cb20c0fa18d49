"""Models in this process, without a server: the same preparation, engines and answers as an endpoint's.

    model = lightbox.load("models/cats", top_k=3)
    model.predict("cat.jpg")

Nothing of it is imported by a server's processes.
"""

from __future__ import annotations

from lightbox.offline.model import Model, load
from lightbox.offline.rows import Row, rows

__all__ = ["Model", "Row", "load", "rows"]
