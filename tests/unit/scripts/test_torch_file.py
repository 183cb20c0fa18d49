"""Tensors of a PyTorch checkpoint are read; whatever else a pickle could do is refused."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_zoo.layout import Refused
from model_zoo.torch_file import MAGIC, read_tensors

VALUES = {"0": np.arange(12, dtype="<f4"), "1": np.array([7], "<i8")}


def checkpoint(path: Path, state: bytes, keys: list[str]) -> Path:
    head: tuple[object, ...] = (MAGIC, 1001, {"little_endian": True})
    parts = [pickle.dumps(part, 2) for part in head]
    storages = b"".join(len(VALUES[key]).to_bytes(8, "little") + VALUES[key].tobytes() for key in keys)
    path.write_bytes(b"".join([*parts, state, pickle.dumps(keys, 2), storages]))
    return path


def tensor(kind: str, key: str, count: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """Return the opcodes of one tensor, as PyTorch writes them."""
    storage = b"(" + pickle.dumps("storage", 2)[2:-1] + f"ctorch\n{kind}\n".encode()
    storage += b"".join(pickle.dumps(part, 2)[2:-1] for part in (key, "cpu", count, None)) + b"tQ"
    rest = b"".join(pickle.dumps(part, 2)[2:-1] for part in (0, shape, strides, False, OrderedDict()))
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tR"


def state_of(**tensors: bytes) -> bytes:
    items = b"".join(pickle.dumps(name, 2)[2:-1] + found for name, found in tensors.items())
    return b"\x80\x02}(" + items + b"u."


def test_tensors_are_read_by_name_as_their_strides_say(tmp_path: Path) -> None:
    state = state_of(
        weight=tensor("FloatStorage", "0", 12, (3, 4), (1, 3)), steps=tensor("LongStorage", "1", 1, (), ())
    )
    found = read_tensors(checkpoint(tmp_path / "model.pth", state, ["1", "0"]))
    np.testing.assert_array_equal(found["weight"], np.arange(12, dtype=np.float32).reshape(4, 3).T)
    assert found["steps"] == 7


def test_nothing_but_tensors_is_made(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)

    with pytest.raises(Refused, match=r"expected a checkpoint of tensors: it names posix.mkdir"):
        read_tensors(checkpoint(tmp_path / "model.pth", pickle.dumps(Attack(), 2), []))
    assert not (tmp_path / "made").exists()


def test_a_tensor_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    state = state_of(weight=tensor("FloatStorage", "0", 12, (3, 4), (100, 3)))
    with pytest.raises(Refused, match="expected a checkpoint of tensors: "):
        read_tensors(checkpoint(tmp_path / "model.pth", state, ["0"]))


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pth").write_bytes(pickle.dumps({"weight": 1}))
    with pytest.raises(Refused, match=r"with which PyTorch's checkpoints begin, got \{'weight': 1\}"):
        read_tensors(tmp_path / "model.pth")
    (tmp_path / "model.pth").write_bytes(b"PK\x03\x04")
    with pytest.raises(Refused, match="expected a checkpoint of tensors: "):
        read_tensors(tmp_path / "model.pth")
