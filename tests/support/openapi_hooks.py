"""Schemathesis hooks for /openapi.json: bodies of media types that a schema does not describe."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import schemathesis
from hypothesis import strategies as st

from lightbox.codecs import codec_classes
from support.fakes import png

LARGE, FLOAT32 = 1e20, 3.4028234663852886e38
COMES_AND_GOES = "two_in_two_out"
MOST_WIDE = 4
"""Axes of a shape that may be longer than 1: of more, a short list of sizes asks for gigabytes."""
JSON_LENGTH = "Inference-Header-Content-Length"
OF_IMAGES = ("image/*", "application/x-image", "application/octet-stream", "multipart/form-data")
PIXELS = st.integers(0, 255).map(lambda value: png(np.full((8, 8, 3), value)))
IMAGES = st.one_of(PIXELS, st.binary(max_size=40))
NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=4)


def _npy(numbers: list[float], archive: bool = False) -> bytes:
    buffer = io.BytesIO()
    array = np.array(numbers, np.float32)
    if archive:
        np.savez(buffer, x=array)
    else:
        np.save(buffer, array)
    return buffer.getvalue()


def _lines(numbers: list[float]) -> bytes:
    return "\n".join(map(str, numbers)).encode()


BODIES = {
    "image/*": IMAGES,
    "application/x-image": IMAGES,
    "application/octet-stream": IMAGES,
    "application/x-npy": NUMBERS.map(_npy),
    "application/x-npz": NUMBERS.map(lambda numbers: _npy(numbers, archive=True)),
    "application/jsonlines": NUMBERS.map(_lines),
    "application/jsons": NUMBERS.map(_lines),
    "text/csv": NUMBERS.map(_lines),
    "application/vnd.sagemaker-triton.binary+json": st.binary(max_size=40),
}
OF_CODECS = (name for codec in codec_classes() for name in codec.media_types if name != "application/json")
for name in dict.fromkeys((*OF_CODECS, *BODIES)):
    schemathesis.openapi.media_type(name, BODIES.get(name, st.binary(max_size=40)))


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Make related parts of a valid request consistent: shape and elements, the JSON and its length."""
    if isinstance(case.body, dict | list):
        case.body = _moderate(case.body)
    if case.meta is None or case.meta.generation.mode is not schemathesis.GenerationMode.POSITIVE:
        return
    _name_model(case)
    if case.path.endswith("/infer"):
        if isinstance(case.body, dict):
            case.headers.pop(JSON_LENGTH, None)
            _agree(case.body)
        else:
            case.headers[JSON_LENGTH] = "0"
    elif case.media_type in OF_IMAGES:
        case.headers["X-Amzn-SageMaker-Custom-Attributes"] = "tfs-model-name=image_mean"


def _moderate(value: Any) -> Any:
    """Return a body without numbers whose sums and products are infinite.

    Responses have ``Infinity`` for these, as TensorFlow Serving writes it: JSON has no such number to hold to a schema.
    """
    if isinstance(value, dict):
        return {key: _moderate(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_moderate(item) for item in value]
    return math.copysign(LARGE, value) if isinstance(value, float) and LARGE < abs(value) <= FLOAT32 else value


def _name_model(case: schemathesis.Case[Any]) -> None:
    """Use an existing model if the document does not name one (multi-model mode)."""
    changes = case.path.endswith("load") or case.method == "DELETE"
    for name in ("model", "name"):
        if name in case.path_parameters and not case.path.startswith("/endpoints/"):
            case.path_parameters[name] = COMES_AND_GOES if changes else "half_plus_two"
    if "version" in case.path_parameters:
        case.path_parameters["version"] = "2" if "half" in case.formatted_path else "1"
    if case.path == "/models" and isinstance(case.body, dict):
        case.body["url"] = COMES_AND_GOES


def _agree(body: dict[str, Any]) -> None:
    body["outputs"] = list({entry["name"]: entry for entry in body.get("outputs", ())}.values())
    for entry in body["inputs"]:
        sizes = entry["shape"] = [
            int(size) % (9 if axis < MOST_WIDE else 2) for axis, size in enumerate(entry["shape"])
        ]
        values = [value for value in entry["data"] if not isinstance(value, list)] or [0]
        entry["data"] = [values[index % len(values)] for index in range(math.prod(sizes))]
