"""The interface of engines for the rest of the server."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

log = logging.getLogger("model_server")

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


_VALUES = re.compile(r"indices|index|out of (bounds|range)|division", re.IGNORECASE)
_MEMORY = re.compile(
    r"bad_alloc|allocat\w* (memory|\d)|failed to allocate|create a memory object|out of memory|not enough memory",
    re.IGNORECASE,
)
_NODE = re.compile(r"(name:?|node) ?'[^']*'", re.IGNORECASE)
"""A node's name in a runtime's text, which may hold any words."""


def rows_apart(signature: meta_graph_pb2.SignatureDef, feeds: Mapping[str, Array]) -> str | None:
    """Return how inputs differ in their number of rows, though the file has one name for it; None if they do not."""
    if len(feeds) < 2:
        return None
    known: dict[str, tuple[str, int]] = {}
    for name, info in sorted(signature.inputs.items()):
        dims = info.tensor_shape.dim
        if dims and dims[0].name and info.name in feeds and feeds[info.name].ndim:
            first, rows = known.setdefault(dims[0].name, (name, len(feeds[info.name])))
            if rows != len(feeds[info.name]):
                return f"expected the same number of rows, got {rows} of {first} and {len(feeds[info.name])} of {name}"
    return None


def unfit(feeds: Mapping[str, Array], has_open_sizes: bool) -> StatusError:
    """Return the error of a call whose inputs have sizes that a model does not take, though it declares them.

    ``has_open_sizes`` is whether it leaves more open than the number of rows.
    """
    sizes = " and ".join(f"{name} {list(array.shape)}" for name, array in sorted(feeds.items()))
    is_image = has_open_sizes and any(array.ndim == 4 for array in feeds.values())
    hint = "; the option image_size resizes images" if is_image else ""
    return invalid(f"expected inputs of sizes that the model takes, got {sizes}{hint}")


def failure(runtime: str, error: Exception, feeds: Mapping[str, Array], has_open_sizes: bool) -> StatusError:
    """Return the error of a call that a runtime fails: the caller's, unless memory is short."""
    text = f"{runtime}: {' '.join(str(error).split())}"
    said = _NODE.sub("", text)
    if _MEMORY.search(said):
        return StatusError(Code.INTERNAL, text)
    if not has_open_sizes or _VALUES.search(said):
        return invalid(text)
    log.info("inputs of sizes that a model does not take: %s", text)
    return unfit(feeds, has_open_sizes)
