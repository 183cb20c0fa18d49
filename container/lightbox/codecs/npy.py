"""npy and npz for requests and responses, and one output as raw bytes. Every declared size of a zip file is checked."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from typing import IO, ClassVar

import numpy as np
from numpy.lib import format as npy_format
from typing_extensions import override

from lightbox.base.errors import InputMismatch, LightboxError, MalformedBody, NotAcceptable, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.codecs.base import Parsed, Reader, Response, Writer
from lightbox.codecs.media_type import ContentType
from lightbox.images.decode import is_image
from lightbox.model.casting import fitted, numpy_dtype, only_input
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall, Prediction, SignatureSpec

_MAGIC, _ENTRY = b"PK\x03\x04", b"PK\x01\x02"
MAX_MEMBERS = 256
_MOST_ENTRIES = 10_000
"""Most entries; zipfile reads the whole directory, and the entries' signature is rare elsewhere in a file."""
_BEGINNING = 32
"""Bytes that identify an image."""
_READ_HEADER = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_KINDS = "biufcSU"
_MAX_HEADER = 10_000
_MAX_RANK = 32
UNNAMED = "arr_0"
"""numpy's name for the first unnamed array of ``savez``."""


def read_members(body: bytes, max_mb: int, context: RequestContext) -> dict[str, bytes]:
    """Return the uncompressed members by name, without ``.npy``.

    Raises TooLarge before more than ``max_mb`` MiB are unpacked, MalformedBody for a broken or encrypted file, or one
    with a compression that numpy does not use.
    """
    _check_count(body.count(_ENTRY), _MOST_ENTRIES)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            _check_count(len(archive.infolist()), MAX_MEMBERS)
            return _unpacked(archive, len(body), max_mb, context)
    except LightboxError:
        raise
    except Exception as error:  # zipfile raises other exceptions too
        raise MalformedBody(f"npz: the file cannot be read: {str(error)[:100]}") from None


def _check_count(members: int, most: int) -> None:
    if members > most:
        raise TooLarge(f"npz: expected at most {MAX_MEMBERS} arrays, got {members}")


def _unpacked(archive: zipfile.ZipFile, packed: int, max_mb: int, context: RequestContext) -> dict[str, bytes]:
    remaining = limit = max_mb << 20
    members: dict[str, bytes] = {}
    for info in archive.infolist():
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise MalformedBody("npz: expected members that are stored or deflated")
        # A member is read up to its declared size.
        unpacked = limit - remaining + min(info.file_size, remaining + 1)
        context.check()
        context.memory.weigh(unpacked)
        context.memory.hold(packed + 2 * unpacked, "npz")
        with archive.open(info) as member:
            data = member.read(remaining + 1)
        remaining -= len(data)
        if remaining < 0:
            raise TooLarge(f"npz: the arrays unpack to more than LIGHTBOX_MAX_BODY_MB={max_mb} MiB")
        members[info.filename.removesuffix(".npy")] = data
    return members


class NpyCodec(Reader, Writer):
    """One array in an npy file, or several by name in a zip file, which its first bytes identify."""

    media_types: ClassVar[tuple[str, ...]] = ("application/x-npy",)
    single: ClassVar[bool] = True

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            with context.stage("decode"):
                return ModelCall(signature, self._arrays(body, content_type, signature, context))

        return Parsed(decode)

    @override
    def encode(self, prediction: Prediction) -> Response:
        ((name, array),) = prediction.outputs.items()
        buffer = io.BytesIO()
        _write_npy(buffer, name, array, self.media_types[0])
        return Response(buffer.getvalue(), self.media_types[0])

    def _arrays(
        self, body: bytes, content_type: ContentType, signature: SignatureSpec, context: RequestContext
    ) -> dict[str, Array]:
        if not body.startswith(_MAGIC):
            spec = only_input(signature, content_type.name)
            array = read_npy(body)
            _refuse_a_file(array, signature)
            return _as_inputs({spec.name: array}, signature, context)
        arrays = {
            name: read_npy(member) for name, member in read_members(body, self._options.max_body_mb, context).items()
        }
        if arrays.keys() == {UNNAMED} and len(signature.inputs) == 1:
            arrays = dict.fromkeys(signature.inputs, arrays[UNNAMED])
        if arrays.keys() != signature.inputs.keys():
            raise InputMismatch(
                f"npz: expected arrays named {', '.join(signature.inputs)}, got {', '.join(arrays)[:200] or 'none'}"
            )
        return _as_inputs(arrays, signature, context)


def _refuse_a_file(array: Array, signature: SignatureSpec) -> None:
    """Raise InputMismatch for an image's file as an array of bytes, where the model takes pixels."""
    image = signature.image
    if image is None or image.encoded or array.ndim > 1 or array.dtype.char not in "BS":
        return
    if is_image(array.ravel()[: _BEGINNING if array.dtype.char == "B" else 1].tobytes()):
        raise InputMismatch(
            f"input {image.name}: expected an array of pixels, got the bytes of an image's file; send them as "
            "application/x-image, without numpy"
        )


def _as_inputs(arrays: Mapping[str, Array], signature: SignatureSpec, context: RequestContext) -> dict[str, Array]:
    """Return the arrays as the signature's inputs; converted numbers may take 8 times the memory."""
    weight = held = 0
    for name, array in arrays.items():
        spec = signature.inputs[name]
        itemsize = array.itemsize if spec.is_string else numpy_dtype(spec).itemsize
        weight += array.size * itemsize
        held += 2 * array.nbytes
        if array.dtype.kind in "SU":
            held += 2 * array.nbytes + 160 * array.size
        elif not spec.is_string and array.dtype != numpy_dtype(spec):
            held += array.size * (itemsize + 3)  # and a flag for each: whether it is finite
    context.memory.weigh(weight)
    context.memory.hold(held, "npy")
    return {name: fitted(array, signature.inputs[name]) for name, array in arrays.items()}


def read_npy(data: bytes) -> Array:
    """Return the array in an npy file of version 1 or 2, a read-only view of ``data`` if it is aligned.

    Numbers, bools, byte strings and text of any byte order, in row- or column-major order. The header is checked
    against the length of ``data`` first. Raises MalformedBody.
    """
    stream = io.BytesIO(data)
    try:
        read_header = _READ_HEADER[npy_format.read_magic(stream)]
        shape, fortran_order, dtype = read_header(stream, max_header_size=_MAX_HEADER)
    except KeyError:
        raise MalformedBody("npy: expected version 1 or 2 of the format") from None
    except Exception as error:
        # The header is a Python literal: the parser's exception for a broken one depends on its version.
        raise MalformedBody(f"npy: the header cannot be read: {str(error)[:100]}") from None
    if dtype.kind not in _KINDS or not dtype.itemsize or len(shape) > _MAX_RANK:
        raise MalformedBody(
            f"npy: expected numbers or strings of at most {_MAX_RANK} dimensions, "
            f"got {str(dtype)[:100]} of shape {str(shape)[:100]}"
        )
    wanted, came = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if wanted != came:
        raise MalformedBody(f"npy: {str(shape)[:100]} of {dtype} are {wanted} bytes, but {came} follow the header")
    try:
        array = np.ndarray(shape, dtype, data, stream.tell(), order="F" if fortran_order else "C")
    except (ValueError, OverflowError) as error:
        raise MalformedBody(f"npy: the array cannot be read: {error}") from None
    return np.require(array, requirements="A")


class NpzCodec(NpyCodec):
    """Arrays by name in an npz file; responses are stored without compression."""

    media_types: ClassVar[tuple[str, ...]] = ("application/x-npz",)
    synonyms: ClassVar[tuple[str, ...]] = ("application/zip",)
    single: ClassVar[bool] = False

    @override
    def encode(self, prediction: Prediction) -> Response:
        buffer = io.BytesIO()
        # np.savez cannot take an output with the name of one of its parameters.
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, array in prediction.outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_npy(member, name, array, self.media_types[0])
        return Response(buffer.getvalue(), self.media_types[0])


class OctetStreamWriter(Writer):
    """One output as raw bytes: numbers little-endian and row-major, or a single string unchanged.

    The headers X-Lightbox-Output, -Dtype and -Shape describe it.
    """

    media_types: ClassVar[tuple[str, ...]] = ("application/octet-stream",)
    single: ClassVar[bool] = True
    headers: ClassVar[tuple[str, ...]] = ("X-Lightbox-Output", "X-Lightbox-Dtype", "X-Lightbox-Shape")

    @override
    def encode(self, prediction: Prediction) -> Response:
        ((name, array),) = prediction.outputs.items()
        if array.dtype.hasobject:
            if array.size != 1:
                raise NotAcceptable(
                    f"Accept: {self.media_types[0]} holds one string, the output {name} has {array.size}; "
                    "accept application/json"
                )
            body = bytes(array.reshape(-1)[0])
        else:
            body = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return Response(body, self.media_types[0], _description(name, array))


def _description(name: str, array: Array) -> dict[str, str]:
    values = (
        name.encode("ascii", "backslashreplace").decode(),
        "string" if array.dtype.hasobject else array.dtype.name,
        ",".join(map(str, array.shape)),
    )
    return dict(zip(OctetStreamWriter.headers, values, strict=True))


def _write_npy(stream: IO[bytes], name: str, array: Array, media_type: str) -> None:
    if array.dtype.hasobject:
        raise NotAcceptable(
            f"Accept: {media_type} holds numbers, the output {name} holds strings; accept application/json"
        )
    npy_format.write_array(stream, np.asarray(array), version=(1, 0), allow_pickle=False)
