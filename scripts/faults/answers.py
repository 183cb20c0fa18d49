"""Answers in a form that compares: the text without numbers, and the numbers, which vary slightly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from lightbox.features.open_inference.grpc.messages import ModelInferResponse

TOLERANCE = 1e-4
"""Allows for another order of additions, as batches of other sizes have it."""
_ID, _NUMBER = re.compile(r'"id":"[^"]*"'), re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class Form(StrEnum):
    """How a body is read."""

    TEXT = "text"
    FLOATS = "JSON, then floats"
    MESSAGE = "ModelInferResponse"


class Answer(NamedTuple):
    """An answer."""

    text: str
    numbers: Sequence[float]


def read(body: bytes, form: Form) -> Answer:
    """Return what a body answers; one that cannot be read is like no other."""
    try:
        if form is Form.MESSAGE:
            response = ModelInferResponse.FromString(body)
            raw = b"".join(response.raw_output_contents)
            return Answer(" ".join(output.name for output in response.outputs), np.frombuffer(raw, "<f4").tolist())
        if form is Form.FLOATS:
            return Answer("", np.frombuffer(body.rpartition(b"}")[2], "<f4").tolist())
        text = _ID.sub("", "".join(body.decode().split()))
    except Exception:
        return Answer(f"unreadable: {body[:200]!r}", ())
    return Answer(_NUMBER.sub("", text), [float(number) for number in _NUMBER.findall(text)])


def is_same(one: Answer, other: Answer) -> bool:
    """Return whether two answers say the same."""
    if one.text != other.text or len(one.numbers) != len(other.numbers):
        return False
    return bool(np.allclose(one.numbers, other.numbers, TOLERANCE, 1e-6))
