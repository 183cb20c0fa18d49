"""Reads the tensors of a PyTorch checkpoint without PyTorch, and nothing else that a pickle could hold."""

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lightbox.tools.model_zoo.folder import Refused

MAGIC = 0x1950A86A20F9469CFC6C
"""Begins a checkpoint of PyTorch before 1.6: pickles, the last one a list of storages, then the storages' bytes."""


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a state dict by name. Raises Refused for anything else; none of it is executed."""
    with path.open("rb") as file:
        try:
            magic = _Tensors(file).load()
            if magic != MAGIC:
                raise Refused(f"{path}: expected {MAGIC:#x}, with which PyTorch's checkpoints begin, got {magic!r:.40}")
            _, _, tensors = _Tensors(file).load(), _Tensors(file).load(), (reader := _Tensors(file)).load()
            for key in _Tensors(file).load():
                file.read(8)  # the number of values, which the tensors have too
                if file.readinto(storage := reader.storages[key].data) < storage.nbytes:
                    raise EOFError(f"the storage {key!r} is cut short")
        except _DAMAGES as error:
            raise Refused(f"{path}: expected a checkpoint of tensors: {error}") from error
    return dict(tensors)


class _Tensors(pickle.Unpickler):
    """Makes arrays over ``storages``, whose bytes follow later in the file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}") from None

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        _, kind, key, _, count, _ = pid
        return self.storages.setdefault(key, np.zeros(count, _DTYPES[kind]))


def _tensor(storage: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Any:
    size = storage.itemsize
    return np.ndarray(shape, storage.dtype, storage, offset * size, [size * stride for stride in strides])


_DAMAGES = (
    *(pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError),
    *(AttributeError, BufferError, MemoryError, OverflowError),
)
"""Exceptions that a pickle of something else, or of numbers that fit nothing, raises."""
_DTYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}
_ADMITTED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    **{("torch", kind): kind for kind in _DTYPES},
}
"""No dtype is among them: a pickle could change it, and the bytes of the file would be written over what it names."""
