"""text/tab-separated-values both ways: a row of numbers an instance, no header."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from typing_extensions import override

from lightbox.codecs.base import Parsed, Reader, Response, Writer
from lightbox.codecs.json_text import row_texts
from lightbox.codecs.media_type import ContentType, check_size, checked_utf8
from lightbox.core.errors import MalformedBody
from lightbox.core.request_context import RequestContext
from lightbox.model.casting import cast, only_input
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Method, ModelCall, Prediction, SignatureSpec
from lightbox.openapi.schemas import TEXT, Schema

_BYTES_A_CHARACTER = 40
"""Memory that a number of one digit takes while it is read."""


class TsvCodec(Reader, Writer):
    """Rows of numbers: in, for a model with one input; out, all elements of one output."""

    media_types: ClassVar[tuple[str, ...]] = ("text/tab-separated-values",)
    schema: ClassVar[Schema] = TEXT
    single: ClassVar[bool] = True
    compressible: ClassVar[bool] = False

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        check_size(body, self._options.max_text_mb)

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            spec = only_input(signature, self.media_types[0])
            with context.stage("decode"):
                context.memory.hold(_BYTES_A_CHARACTER * len(body), "the rows")
                rows = checked_utf8(body, content_type).decode().splitlines()
                context.check()
                try:
                    table = np.array([row.split("\t") for row in rows], np.float64)
                except ValueError as error:
                    raise MalformedBody(f"the body: expected rows of numbers with tabs between them: {error}") from None
                return ModelCall(signature, {spec.name: cast(table, spec)})

        return Parsed(decode)

    @override
    def encode(self, prediction: Prediction) -> Response:
        ((name, array),) = prediction.outputs.items()
        table = array.reshape(len(array) if array.ndim else 1, -1)
        rows = (row.strip(b"[]").replace(b",", b"\t") for row in row_texts(name, table))
        return Response(b"".join(row + b"\n" for row in rows), f"{self.media_types[0]}; charset=utf-8")
