"""The request with one image, and its response as JSON text or as Python has it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image
from typing_extensions import override

from lightbox.base.errors import BadRequest, HandlerFailed
from lightbox.base.request_context import RequestContext
from lightbox.codecs.base import Response
from lightbox.codecs.json_text import encode_row, from_json
from lightbox.core.request import JSON, Body, FindSignature, Writer
from lightbox.model.spec import Array, Prediction, SignatureSpec
from lightbox.tools.offline.rows import JsonText, unwrapped
from lightbox.tools.offline.storage import Folder, refuse
from lightbox.user_code.api_detection import Function
from lightbox.user_code.handlers import Request, finish

AnyImage: TypeAlias = "bytes | str | PathLike[str] | Image.Image | npt.NDArray[np.uint8]"
"""The bytes of a file, its path, an image of Pillow, or pixels: uint8 [height, width, 3] in RGB or [height, width]."""


class ImageBody(Body):
    """A body with one image, whose response is ``JsonText`` of the prediction, or what user code answers."""

    @override
    def writer(self, by_user_code: bool, has_names: bool) -> Writer[Any]:
        return _RowWriter()

    @override
    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Body]:
        return [Body(self.codecs, self.body, self.content_type, self.accept)]  # the pair reads the whole document

    @override
    def joined(self, responses: Sequence[Response], find: FindSignature) -> Any:
        return _content(responses[0])


class _RowWriter(Writer[Any]):
    places_maps = True

    @override
    def check(self, outputs: int) -> None:
        pass

    @override
    def write(self, prediction: Prediction, signature: SignatureSpec) -> JsonText:
        return JsonText(encode_row(prediction))

    @override
    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> Any:
        return _content(finish(postprocess, outputs, shown))


def _content(response: Response) -> Any:
    """Return the document, text or bytes of user code; raise HandlerFailed for a document that is no JSON."""
    kind = response.content_type.partition(";")[0]
    if kind == JSON or kind.endswith("+json"):
        try:
            return unwrapped(from_json(response.body))
        except ValueError as error:
            raise HandlerFailed(f"the response is of the type {kind}, and no JSON: {error}") from error
    return response.body.decode(errors="replace") if kind.startswith("text/") else response.body


def read_image(image: AnyImage, most: int) -> bytes:
    """Return the bytes of an image's file, at most ``most``: pixels as a PNG, which keeps them."""
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image) if len(image) <= most else refuse(most)
    if isinstance(image, str | PathLike):
        return Folder(Path()).read(os.fspath(image), most)
    pixels = image if isinstance(image, Image.Image) else Image.fromarray(_checked(image))
    written = BytesIO()
    pixels.save(written, "PNG", compress_level=0)
    return written.getvalue()


def _checked(image: object) -> npt.NDArray[np.uint8]:
    """Return an array of pixels; raise BadRequest for anything else."""
    if isinstance(image, np.ndarray):
        if (
            image.dtype == np.uint8
            and image.size
            and (image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (3, 4)))
        ):
            return image
        came = f"{image.dtype} {list(image.shape)}"
    else:
        came = type(image).__name__
    expected = "bytes, a path, an image of Pillow, or uint8 [height, width, 3] or [height, width]"
    raise BadRequest(f"image: expected {expected}; got {came}")
