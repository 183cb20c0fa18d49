"""Answers in bytes: application/x-npy, application/x-npz and application/octet-stream."""

from __future__ import annotations

import io
import zipfile
from typing import IO

import numpy as np
from numpy.lib import format as npy_format

from lightbox.codecs.base import Answer, Prediction
from lightbox.errors import NotAcceptable
from lightbox.model_spec import Array


class NpyAnswer:
    """One output as an npy file."""

    media_type = "application/x-npy"
    single = True

    def encode(self, prediction: Prediction) -> Answer:
        """See AnswerCodec.encode."""
        ((name, array),) = prediction.outputs.items()
        buffer = io.BytesIO()
        _write_npy(buffer, name, array, self.media_type)
        return Answer(buffer.getvalue(), self.media_type)


class NpzAnswer:
    """All outputs by name in an npz file, not compressed."""

    media_type = "application/x-npz"
    single = False

    def encode(self, prediction: Prediction) -> Answer:
        """See AnswerCodec.encode."""
        buffer = io.BytesIO()
        # Not np.savez: an output named as one of its parameters could not be passed to it.
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, array in prediction.outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_npy(member, name, array, self.media_type)
        return Answer(buffer.getvalue(), self.media_type)


class OctetStreamAnswer:
    """One output's own bytes: numbers little-endian and row-major, or a single string as it is.

    The headers X-Lightbox-Output, -Dtype and -Shape say what they are.
    """

    media_type = "application/octet-stream"
    single = True

    def encode(self, prediction: Prediction) -> Answer:
        """See AnswerCodec.encode."""
        ((name, array),) = prediction.outputs.items()
        if array.dtype.hasobject:
            if array.size != 1:
                raise NotAcceptable(
                    f"Accept: {self.media_type} holds one string, the output {name} has {array.size}; "
                    "accept application/json"
                )
            body = bytes(array.reshape(-1)[0])
        else:
            body = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return Answer(body, self.media_type, _description(name, array))


def _description(name: str, array: Array) -> dict[str, str]:
    return {
        "X-Lightbox-Output": name.encode("ascii", "backslashreplace").decode(),
        "X-Lightbox-Dtype": "string" if array.dtype.hasobject else array.dtype.name,
        "X-Lightbox-Shape": ",".join(map(str, array.shape)),
    }


def _write_npy(stream: IO[bytes], name: str, array: Array, media_type: str) -> None:
    if array.dtype.hasobject:
        raise NotAcceptable(
            f"Accept: {media_type} holds numbers, the output {name} holds strings; accept application/json"
        )
    npy_format.write_array(stream, np.asarray(array), version=(1, 0), allow_pickle=False)
