"""The fuzz targets: functions of bytes that must quickly return or raise one of our errors below 500.

This module does not import atheris, so that tests can run the findings through the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
from PIL import Image
from PIL.Image import Resampling
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.codecs import Codecs
from lightbox.codecs.media_type import decoded_body
from lightbox.core.attributes import CustomAttributes
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc.servicer import read_request
from lightbox.features.open_inference.rest.body import parse_body, raw_request
from lightbox.features.streams.frame_options import Choice, from_query, from_text
from lightbox.images.decode import decode_for_resize, decode_rgb
from lightbox.images.limits import ImageLimits
from lightbox.images.preparation import Placement
from lightbox.images.resize import for_pillow, load_native
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Method, SignatureSpec, TensorSpec
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options

LIMITS = {"LIGHTBOX_MAX_BODY_MB": "4", "LIGHTBOX_MAX_IMAGE_PIXELS": "1000000"}
Shape = tuple[int | None, ...] | None
MEMORY_MB = 32
"""Small, so that an input at the limit does not take the time of a thousand others."""


class Fault(Exception):
    """A caller's bytes led to a server error (5xx)."""


def _jpeg(data: bytes) -> None:
    """A JPEG through the compiled resize and through Pillow: the same pixels, or the same error."""
    limits = ImageLimits(max_pixels=1_000_000, max_memory_mb=MEMORY_MB)
    if not data.startswith(b"\xff\xd8\xff"):
        return
    try:
        expected = decode_rgb(data, limits)
    except LightboxError as error:
        refusal = error.message
    else:
        refusal = ""
    try:
        pixels = decode_for_resize(data, limits).pixels
    except LightboxError as error:
        if error.message != refusal:
            raise Fault(f"{error.message!r}, and Pillow says {refusal!r}") from error
        return
    if refusal:
        raise Fault(f"a JPEG is decoded, and Pillow says {refusal!r}")
    if for_pillow(pixels).tobytes() != expected.tobytes():
        raise Fault("a JPEG has other pixels than Pillow's")


def _any_codec(data: bytes) -> None:
    """A body of any media type: the first byte is the index of the codec."""
    names = [name for codec in _codecs().readers for name in codec.media_types]
    for dtype in ("float32", "string"):
        _decode(data[1:], names[data[0] % len(names)] if data else "", dtype, (None, 2))


def _gzip(data: bytes) -> None:
    """A compressed body of JSON."""
    _only_our_errors(
        lambda: _decode(decoded_body(data, "gzip", 4, RequestContext(30)), "application/json", "float32", (None,))
    )
    _only_our_errors(lambda: decoded_body(data, "deflate", 4, RequestContext(30)))


def _kserve(data: bytes) -> None:
    """A body of the Open Inference Protocol: the first two bytes are the length of the JSON part."""
    body = data[2:]
    for length in (int.from_bytes(data[:2], "big"), None):
        _only_our_errors(partial(_kserve_rest, body, length))
    for dtype in ("float32", "string"):
        _only_our_errors(partial(raw_request, body, _signature(dtype, (None, 2))))


def _kserve_rest(body: bytes, json_length: int | None) -> object:
    return parse_body(body, json_length, RequestContext(30)).call(_codecs(), "m", "", CustomAttributes())


def _kserve_grpc(data: bytes) -> None:
    """A serialized ModelInferRequest; gRPC itself rejects bytes that do not parse."""
    from google.protobuf.message import DecodeError

    try:
        message = grpc_messages.message_class("inference.ModelInferRequest").FromString(data)
    except DecodeError:
        return
    _only_our_errors(lambda: read_request(message))


def _stream_frames(data: bytes) -> None:
    """The bytes on the socket of an open stream, and the pairs in its text frames and its URL query."""
    protocol = ServerProtocol(state=OPEN, max_size=1 << 20)
    protocol.receive_data(data)
    texts = [
        event.data for event in protocol.events_received() if isinstance(event, Frame) and event.opcode is Opcode.TEXT
    ]
    for text in (data, *texts):
        _only_our_errors(partial(from_text, bytes(text).decode(errors="replace"), Choice()))
        _only_our_errors(partial(from_query, bytes(text).decode("latin-1")))


def _native_resize(data: bytes) -> None:
    """The resize in C against Pillow's: the first 14 bytes are sizes, filter and crop, the rest are pixels."""
    native = load_native()
    if native is None or len(data) < 14:
        return
    width, height, to_width, to_height = (1 + int.from_bytes(data[at : at + 2], "big") % 400 for at in (0, 2, 4, 6))
    by = (Resampling.BOX, Resampling.BILINEAR, Resampling.BICUBIC, Resampling.LANCZOS)[data[8] % 4]
    mode = "RGB" if data[9] % 2 else "L"
    left, upper, right, lower = (
        byte * (side + 1) // 256 for byte, side in zip(data[10:14], 2 * (to_width, to_height), strict=True)
    )
    size = width * height * len(mode)
    image = Image.frombytes(
        mode, (width, height), (data[14:] * (size // max(1, len(data) - 14) + 1) + bytes(size))[:size]
    )
    part = f"{(left, upper, right, lower)} of {image.size} as {(to_width, to_height)} by {by.name}"
    ours = np.zeros((max(0, lower - upper), max(0, right - left), len(mode)), np.uint8)
    try:
        is_done = native.resize(image, by, ours, placement=Placement((to_width, to_height), -left, -upper))
    except ValueError as error:
        if ours.size:
            raise Fault(f"{part} is refused, and Pillow makes it: {error}") from error
        return
    theirs = np.asarray(image.resize((to_width, to_height), by).crop((left, upper, right, lower)))
    if is_done and not np.array_equal(ours, theirs.reshape(ours.shape)):
        raise Fault(f"{part} has other bits than Pillow's")


@cache
def _codecs() -> Codecs:
    options = codec_options(load_settings(LIMITS))
    return Codecs(replace(options, limits=replace(options.limits, max_memory_mb=MEMORY_MB)))


@cache
def _signature(dtype: str, shape: Shape) -> SignatureSpec:
    outputs = {"y": TensorSpec("y", "float32", (None,))}
    return SignatureSpec("m", 1, "serving_default", {"x": TensorSpec("x", dtype, shape)}, outputs)


def _decode(data: bytes, content_type: str, dtype: str, shape: Shape) -> None:
    """Decode as the pipeline does, including the check before every predict."""
    signature = _signature(dtype, shape)

    def run() -> None:
        request = (
            _codecs().parse(data, content_type, Method.PREDICT, RequestContext(30)).decode(signature, ModelOptions())
        )
        signature.check_inputs(request.inputs)

    _only_our_errors(run)


def _only_our_errors(run: Callable[[], object]) -> None:
    try:
        run()
    except LightboxError as error:
        if error.status >= 500:
            raise Fault(f"{error.status}: {error.message}") from error


def _decoding(*cases: tuple[str, str, Shape]) -> Callable[[bytes], None]:
    """Return a function that decodes a body for each case: a media type, and a model's dtype and shape."""

    def run(data: bytes) -> None:
        for content_type, dtype, shape in cases:
            _decode(data, content_type, dtype, shape)

    return run


_PAIRS, _SMALL, _FIXED, _ANY = (None, 2), (None, 4, 4, 3), (None, 16, 16, 3), (None, None, None, 3)

TARGETS: dict[str, Callable[[bytes], None]] = {
    "image": _decoding(("application/x-image", "uint8", _FIXED)),
    "jpeg": _jpeg,
    "image_of_any_size": _decoding(("image/png", "float32", _ANY)),
    "json_numbers": _decoding(("application/json", "float32", _PAIRS)),
    "json_images": _decoding(("application/json", "uint8", _SMALL), ("application/jsonlines", "string", (None,))),
    "csv": _decoding(*(("text/csv", dtype, _PAIRS) for dtype in ("float32", "int64", "bool", "string"))),
    "tiff": _decoding(("image/tiff", "float32", _FIXED)),
    "npy": _decoding(("application/x-npy", "float32", None), ("application/x-npy", "string", None)),
    "npz": _decoding(("application/x-npz", "float32", None), ("application/x-npz", "uint8", _PAIRS)),
    "codecs": _any_codec,
    "multipart": _decoding(("multipart/form-data; boundary=edge", "uint8", _SMALL)),
    "gzip": _gzip,
    "kserve": _kserve,
    "kserve_grpc": _kserve_grpc,
    "native_resize": _native_resize,
    "stream_frames": _stream_frames,
}
"""Each raises Fault, and exceptions that are not our errors. TIFF has the most intricate tags of all images, and a
target of its own."""
