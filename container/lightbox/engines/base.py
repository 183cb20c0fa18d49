"""The interface of engines for the rest of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from lightbox.tfs_wire.messages import meta_graph_pb2

Array = np.ndarray[Any, np.dtype[Any]]


class Runner(Protocol):
    """Runs calls: a loaded SavedModel, or a batcher in front of one.

    Tensors are named as the signatures name them, such as "serving_default_x:0". Any number of threads may
    call ``run`` at the same time.
    """

    signatures: dict[str, meta_graph_pb2.SignatureDef]

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Return the values of ``fetches`` in order; ``options`` is a serialized ``RunOptions``.

        Raises StatusError with the runtime's code and text.
        """

    def close(self) -> None:
        """Free the model; no call may be in progress."""
