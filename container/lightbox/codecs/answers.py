"""Media types out: the registry of answer codecs, and which of them an Accept header likes best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lightbox.codecs.base import AnswerCodec
from lightbox.codecs.binary_answers import NpyAnswer, NpzAnswer, OctetStreamAnswer
from lightbox.codecs.media_type import best_match
from lightbox.codecs.text_answers import CsvAnswer, JsonAnswer, JsonLinesAnswer, JsonLinesDocument
from lightbox.errors import NotAcceptable

CODECS: dict[str, AnswerCodec] = {
    codec.media_type: codec
    for codec in (JsonAnswer(), JsonLinesAnswer(), CsvAnswer(), NpyAnswer(), NpzAnswer(), OctetStreamAnswer())
}
"""The first one answers where the caller does not mind."""


def codecs(jsonlines: Literal["rows", "document"]) -> Mapping[str, AnswerCodec]:
    """Return the codecs by media type; ``jsonlines`` says what application/jsonlines is, LIGHTBOX_JSONLINES."""
    document = JsonLinesDocument()
    return CODECS if jsonlines == "rows" else CODECS | {document.media_type: document}


def negotiate(accept: str, codecs: Mapping[str, AnswerCodec] = CODECS) -> AnswerCodec:
    """Return the codec for a raw Accept header, "" without one; raise NotAcceptable when none is wanted."""
    media_type = best_match(accept, list(codecs))
    if media_type is None:
        raise NotAcceptable(f"Accept: this endpoint answers {', '.join(codecs)}; got {accept[:200]!r}")
    return codecs[media_type]


def check_single(codec: AnswerCodec, outputs: int) -> None:
    """Raise NotAcceptable if a media type that holds one output is to hold another number of them."""
    if codec.single and outputs != 1:
        raise NotAcceptable(
            f"Accept: {codec.media_type} holds one output and this model gives {outputs}; choose one with "
            "LIGHTBOX_OUTPUTS or outputs in code/lightbox.json, or accept application/json or application/x-npz"
        )
