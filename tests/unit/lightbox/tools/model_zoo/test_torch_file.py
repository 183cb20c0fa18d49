"""Read tensors from a PyTorch checkpoint and refuse all other pickle operations."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.tools.model_zoo.folder import Refused
from lightbox.tools.model_zoo.torch_file import MAGIC, read_tensors
from support.parameters import each

VALUES = {"0": np.arange(12, dtype="<f4"), "1": np.array([7], "<i8")}


def opcodes(value: object) -> bytes:
    """Return the opcodes that build a value inside a pickle."""
    return pickle.dumps(value, 2)[2:-1]


def tensor(kind: str | bytes, key: str, count: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """Return the opcodes that PyTorch writes for one tensor; ``kind`` is its storage's class, or other opcodes."""
    place = opcodes(key) + opcodes("cpu") + opcodes(count) + opcodes(None)
    kind = f"ctorch\n{kind}\n".encode() if isinstance(kind, str) else kind
    storage = b"(" + opcodes("storage") + kind + place + b"tQ"
    rest = opcodes(0) + opcodes(shape) + opcodes(strides) + opcodes(False) + opcodes(OrderedDict())
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tR"


def checkpoint(path: Path, state: bytes, *keys: str) -> Path:
    head = pickle.dumps(MAGIC, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)
    storages = b"".join(len(VALUES[key]).to_bytes(8, "little") + VALUES[key].tobytes() for key in keys)
    path.write_bytes(head + state + pickle.dumps(list(keys), 2) + storages)
    return path


def state_of(**tensors: bytes) -> bytes:
    return b"\x80\x02}(" + b"".join(opcodes(name) + found for name, found in tensors.items()) + b"u."


def test_tensors_are_read_by_name_as_their_strides_say(tmp_path: Path) -> None:
    state = state_of(
        weight=tensor("FloatStorage", "0", 12, (3, 4), (1, 3)), steps=tensor("LongStorage", "1", 1, (), ())
    )
    found = read_tensors(checkpoint(tmp_path / "model.pth", state, "1", "0"))
    np.testing.assert_array_equal(found["weight"], np.arange(12, dtype=np.float32).reshape(4, 3).T)
    assert found["steps"] == 7


def test_nothing_but_tensors_is_made(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)

    with pytest.raises(Refused, match=r"expected a checkpoint of tensors: it names posix\.mkdir"):
        read_tensors(checkpoint(tmp_path / "model.pth", pickle.dumps(Attack(), 2)))
    assert not (tmp_path / "made").exists()


@each(
    "state",
    [
        *(tensor(opcodes(kind), "0", 12, (3, 4), (4, 1)) for kind in ("O", "<f4", "V4", ["O"], "LongStorage,O")),
        tensor("FloatStorage", "0", 12, (3, 4), (100, 3)),
        tensor("FloatStorage", "0", 13, (13,), (1,)),
        tensor("FloatStorage", "0", 1 << 60, (1,), (1,)),
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + opcodes("text") + opcodes(0) + opcodes((1,)) * 2 + b"tR",
        b"ctorch\nFloatStorage\n" + opcodes((3, "|", None, None, None, -1, -1, 63)) + b"b",  # what changes a dtype
    ],
)
def test_storages_are_of_two_dtypes_and_whole(tmp_path: Path, state: bytes) -> None:
    """Bytes of the file in an array of objects would be pointers."""
    with pytest.raises(Refused, match="expected a checkpoint of tensors: "):
        read_tensors(checkpoint(tmp_path / "model.pth", state_of(weight=state), "0"))


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pth").write_bytes(pickle.dumps({"weight": 1}))
    with pytest.raises(Refused, match=r"with which PyTorch's checkpoints begin, got \{'weight': 1\}"):
        read_tensors(tmp_path / "model.pth")
    (tmp_path / "model.pth").write_bytes(b"PK\x03\x04")
    with pytest.raises(Refused, match="expected a checkpoint of tensors: "):
        read_tensors(tmp_path / "model.pth")
