"""NumPy files: reading uses no pickle, and allocates no memory for data that only the header declares."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lightbox.base.errors import InputMismatch, MalformedBody, TooLarge
from lightbox.model.spec import Array
from support.decoding import decode, tensor
from support.fakes import Tensor
from support.parameters import each

NPY, NPZ = "application/x-npy", "application/x-npz"


def npy(array: object, version: tuple[int, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), version=version)
    return buffer.getvalue()


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def with_header(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + data


ARRAYS = hnp.arrays(
    hnp.integer_dtypes(endianness="?")
    | hnp.unsigned_integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | hnp.complex_number_dtypes(endianness="?", sizes=(64, 128))
    | hnp.boolean_dtypes(),
    hnp.array_shapes(min_dims=1, max_dims=4, max_side=4),
)


@pytest.mark.extended
@given(ARRAYS, st.sampled_from(["C", "F"]), st.sampled_from([(1, 0), (2, 0)]))
def test_any_array_comes_back(array: Array, order: str, version: tuple[int, int]) -> None:
    body = npy(np.array(array, order=order), version)  # type: ignore[call-overload]
    found = tensor(body, NPY, array.dtype.name, (None, *array.shape[1:]))
    np.testing.assert_array_equal(found, array)
    assert found.dtype.isnative
    assert found.flags.c_contiguous


def test_strings_come_as_bytes_or_text() -> None:
    for array in (np.array([b"a", b"\xff"]), np.array(["a", "é"])):
        assert tensor(npy(array), NPY, "string").tolist() == [
            item if isinstance(item, bytes) else item.encode() for item in array.tolist()
        ]


def test_a_batch_dimension_may_be_missing() -> None:
    assert tensor(npy(np.zeros((2, 3), "f4")), NPY, "float32", (None, 2, 3)).shape == (1, 2, 3)
    assert tensor(npy(np.float32(5)), NPY).tolist() == [5]


def test_an_empty_batch_is_a_batch() -> None:
    assert tensor(npy(np.zeros((0, 3), "f4")), NPY, "float32", (None, 3)).shape == (0, 3)


@each(
    ("array", "dtype"),
    [
        (np.array([1.5, -2.0]), "float32"),
        (np.array([1, 2], np.int64), "uint8"),
        (np.array([1, 2], np.int64), "float32"),
        (np.array([1.0, 2.0]), "int64"),
        (np.array([np.nan, np.inf]), "float32"),
        (np.array([2.0**53], np.float64), "uint64"),
    ],
)
def test_numbers_are_cast_where_nothing_is_lost(array: Array, dtype: str) -> None:
    np.testing.assert_array_equal(tensor(npy(array), NPY, dtype).astype(array.dtype), array)


@each(
    ("array", "dtype"),
    [
        (np.array([1.5]), "int32"),
        (np.array([np.nan]), "int32"),
        (np.array([np.inf]), "uint64"),
        (np.array([2.0**63]), "int64"),
        (np.array([2.0**64]), "uint64"),
        (np.array([-1], np.int8), "uint64"),
        (np.array([256]), "uint8"),
        (np.array([2**64 - 1], np.uint64), "int64"),
        (np.array([1e39]), "float32"),
        (np.array([70000]), "float16"),
        (np.array([True]), "float32"),
        (np.array([1]), "bool"),
        (np.array([1j]), "float32"),
        (np.array([b"a"]), "float32"),
        (np.array([1.0]), "string"),
        (np.array([1.0]), "bfloat16"),
    ],
)
def test_what_does_not_fit_the_input_is_a_mismatch(array: Array, dtype: str) -> None:
    with pytest.raises(InputMismatch, match="input x"):
        tensor(npy(array), NPY, dtype)


GOOD = npy(np.zeros(4, "f4"))


@each(
    "body",
    [
        b"",
        b"\x93NUMPY",
        b"no npy at all",
        GOOD[:-1],
        GOOD + b"x",
        GOOD[:50],
        GOOD[:6] + b"\x09\x00" + GOOD[8:],
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000,)}"),
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", bytes(4)),
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9999999999999999999999)}"),
        with_header("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000000000,)}"),
        with_header("{'descr': '|V4', 'fortran_order': False, 'shape': (1,)}", bytes(4)),
        with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", bytes(4)),
        with_header("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': " + "(1," * 60 + ")" * 60 + "}"),
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 60 + ")}", bytes(4)),
        with_header("(" * 9000),
        with_header("[" * 60000),
        with_header("__import__('os').abort()"),
        with_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nabort\n(tR."),
    ],
)
def test_a_malformed_file_is_said_to_be_so(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="npy"):
        tensor(body, NPY)


def test_text_that_is_no_text_is_refused() -> None:
    header = "{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}"
    with pytest.raises(InputMismatch, match="text is not valid"):
        tensor(with_header(header, b"\xff\xff\xff\xff"), NPY, "string")


TWO: dict[str, Tensor] = {"a": ("float32", (None, 2)), "k": ("int32", (None,))}


def test_an_npz_file_has_arrays_by_name() -> None:
    found = decode(npz(k=[3], a=[[1.0, 2.0]]), NPZ, TWO).inputs
    assert found["a"].tolist() == [[1, 2]]
    assert found["k"].dtype == np.int32


@pytest.mark.parametrize("content_type", [NPY, NPZ, "application/zip"])
def test_an_npz_file_under_any_of_its_names(content_type: str) -> None:
    assert tensor(npz(x=[1.0, 2.0]), content_type).tolist() == [1, 2]
    assert tensor(npz(arr_0=[1.0, 2.0]), content_type).tolist() == [1, 2]


def test_an_npz_file_with_other_names_says_which_were_expected() -> None:
    with pytest.raises(InputMismatch, match="expected arrays named a, k, got a, z"):
        decode(npz(a=[[1.0, 2.0]], z=[1]), NPZ, TWO)


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def test_an_npz_bomb_is_too_large() -> None:
    bomb = zipped(*((f"{index}.npy", npy(np.zeros(1 << 17))) for index in range(3)))
    with pytest.raises(TooLarge, match="LIGHTBOX_MAX_BODY_MB=2"):
        decode(bomb, NPZ, environ={"LIGHTBOX_MAX_BODY_MB": "2"})


def test_a_zip_file_of_many_members_is_too_large() -> None:
    with pytest.raises(TooLarge, match="at most 256 arrays"):
        decode(zipped(*((f"{index}.npy", b"") for index in range(300))), NPZ)


def encrypted() -> bytes:
    body = bytearray(zipped(("x.npy", GOOD), method=zipfile.ZIP_STORED))
    body[6] |= 1
    body[body.rfind(b"PK\x01\x02") + 8] |= 1
    return bytes(body)


@each(
    "body",
    [
        b"PK\x03\x04",
        zipped(("x.npy", GOOD))[:-10],
        zipped(("x.npy", b"no npy")),
        zipped(("x.npy", GOOD), method=zipfile.ZIP_LZMA),
        zipped(("x.npy", GOOD), method=zipfile.ZIP_BZIP2),
        encrypted(),
        zipped(("x.npy", GOOD), method=zipfile.ZIP_STORED).replace(GOOD, GOOD[:-1] + b"x"),
        zipped(("x.npy", GOOD))[:-22] + b"PK\x06\x07" + bytes(16) + zipped(("x.npy", GOOD))[-22:],
    ],
)
def test_a_broken_npz_file_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBody, match=r"np[yz]"):
        tensor(body, NPZ)
