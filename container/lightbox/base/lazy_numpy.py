"""numpy, imported at its first use: ``from lightbox.base.lazy_numpy import np``.

The supervisor compares options with a model's shapes at each start, and computes nothing: without numpy it begins its
children earlier, by a tenth of a start's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """The module, once one of its names is used."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _Numpy()

__all__ = ["np"]
