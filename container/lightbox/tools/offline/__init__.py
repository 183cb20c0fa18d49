"""Models in this process, without a server: preparation, engines and responses are those of an endpoint.

    model = lightbox.load("models/cats", top_k=3)
    model.predict("cat.jpg")

The processes of a server do not import this package.
"""

from __future__ import annotations

from lightbox.tools.offline.loading import load
from lightbox.tools.offline.model import Model
from lightbox.tools.offline.rows import Row, rows

__all__ = ["Model", "Row", "load", "rows"]
