"""Vectors of texts, one for each label, with which embeddings of images are compared: a file of numpy's."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightbox.base.errors import ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.model_runtime.access import open_file

if TYPE_CHECKING:
    import numpy.typing as npt


def read_vectors(path: Path) -> npt.NDArray[Any]:
    """Return the vectors in a file, [texts, dimensions], without reading them all. Raises OSError and ValueError."""
    open_file(path).close()
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy's for a broken header are of many kinds
        raise ValueError(f"it is no .npy of numbers: {str(error)[:100]}") from None
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind != "f" or not found.size:
        given = f"{found.dtype} of {found.shape}" if isinstance(found, np.ndarray) else "several arrays"
        raise ValueError(f"expected floats of [texts, dimensions], got {given}")
    return found


def similarities(embeddings: npt.NDArray[Any], path: str, scale: float, bias: float) -> npt.NDArray[np.float32]:
    """Return the cosine of each embedding and each text, scaled. Raises ModelFailed for embeddings of another size."""
    try:
        texts = _unit_vectors(path, Path(path).stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise ModelFailed(f"text_vectors: {path} cannot be read: {error}") from None
    if texts.shape[1] != embeddings.shape[1]:
        raise ModelFailed(f"text_vectors: expected embeddings of {texts.shape[1]} numbers, got {embeddings.shape[1]}")
    found: npt.NDArray[np.float32] = _unit(embeddings) @ texts.T * np.float32(scale) + np.float32(bias)
    return found


@lru_cache(maxsize=16)
def _unit_vectors(path: str, written: int) -> npt.NDArray[np.float32]:
    return _unit(read_vectors(Path(path)))


def _unit(vectors: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    found = vectors.astype(np.float32)
    with np.errstate(all="ignore"):  # a vector of zeros has no direction
        unit: npt.NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit
