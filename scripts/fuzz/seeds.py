"""The seed inputs: a few valid inputs for each target, and the findings of earlier runs."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from websockets.frames import Frame, Opcode

from lightbox.codecs import codec_classes
from lightbox.codecs.base import Reader
from lightbox.features.open_inference.grpc import messages as grpc_messages

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = (REPOSITORY / "tests" / "corpus" / "valid", REPOSITORY / "tests" / "corpus" / "invalid")
FOUND = REPOSITORY / "tests" / "corpus" / "found"
LARGEST = 64 << 10


def seeds(target: str) -> Iterator[bytes]:
    """Yield the seed inputs for a target, including earlier findings."""
    yield from _MAKERS[target]()
    for path in sorted((FOUND / target).glob("*")):
        yield path.read_bytes()


def _images(*begins: bytes) -> Iterator[bytes]:
    """Yield the images with one of these prefixes, or all images without a prefix."""
    for folder in IMAGES:
        for path in sorted(folder.iterdir()):
            if path.suffix != ".json" and path.stat().st_size <= LARGEST:
                data = path.read_bytes()
                if data.startswith(begins or b""):
                    yield data


def _json() -> Iterator[bytes]:
    for value in (
        {"instances": [[1, 2], [3.5, -4e3]]},
        {"inputs": {"x": [[1, 2]]}, "signature_name": "serving_default"},
        {"instances": [{"x": {"b64": "iVBORw0KGgo="}}]},
        {"examples": [{"x": [1, 2]}], "context": {"y": ["a"]}},
        [[True, None], ["NaN", 1e400]],
    ):
        yield json.dumps(value).encode()
    yield b"[1, 2]\n[3, 4]\n{}\n"
    yield b"\xef\xbb\xbf[1,2]"


def _csv() -> Iterator[bytes]:
    yield b'1,2\n+3,.5e1\r\n"7",inf\n'
    yield b"true,false\n0,1\n"
    yield "ä,b\n".encode()


def _npy() -> Iterator[bytes]:
    for array in (np.eye(2, dtype="f4"), np.arange(3, dtype=">i2"), np.array([b"a", b"bc"]), np.array("text")):
        buffer = io.BytesIO()
        np.save(buffer, array)
        yield buffer.getvalue()
    yield from islice(_npz(), 1)


def _npz() -> Iterator[bytes]:
    for save in (np.savez, np.savez_compressed):
        for count in (1, 7):
            buffer = io.BytesIO()
            save(buffer, **{f"x{number}": np.zeros(2, "f4") for number in range(count)})  # type: ignore[arg-type]
            yield buffer.getvalue()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.zeros(100_000, "f4"))
    yield buffer.getvalue()


def _stream_frames() -> Iterator[bytes]:
    pairs = b"tfs-model-name=digits,latest=true"
    frames = [
        Frame(Opcode.TEXT, pairs),
        Frame(Opcode.BINARY, bytes(300)),
        Frame(Opcode.PING, b"a"),
        Frame(Opcode.CLOSE, b"\x03\xe8"),
    ]
    yield b"".join(frame.serialize(mask=True) for frame in frames)
    yield Frame(Opcode.TEXT, b"\xff", fin=False).serialize(mask=True) + Frame(Opcode.CONT, b"a").serialize(mask=True)
    yield pairs
    yield pairs.replace(b",", b"&")


def _codecs() -> Iterator[bytes]:
    readers = (codec for codec in codec_classes() if issubclass(codec, Reader))
    for number in range(sum(len(codec.media_types) for codec in readers)):
        for make in (_json, _csv, _npy):
            yield bytes([number]) + next(make())


def _multipart() -> Iterator[bytes]:
    image = next(_images())
    head = b'--edge\r\nContent-Disposition: form-data; name="a"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    yield head + image + b"\r\n--edge--\r\n"
    yield b'--edge\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' + head + image + b"\r\n--edge--"


def _gzip() -> Iterator[bytes]:
    yield gzip.compress(b"[1, 2]")
    yield gzip.compress(b"[1,") + gzip.compress(b"2]") + bytes(8)
    yield gzip.compress(bytes(1 << 16))


def _kserve() -> Iterator[bytes]:
    for tensor, blob in (
        ({"datatype": "FP32", "shape": [1, 2], "data": [[1, 2.5]]}, b""),
        ({"datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": 4}}, bytes(4)),
        ({"datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}}, b"\2\0\0\0ab"),
        ({"datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": "1,2"}}, b"abc"),
        ({"datatype": "BYTES", "shape": [1]}, b"abc"),
    ):
        document = {"id": "7", "inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y"}]}
        head = json.dumps(document).encode()
        yield len(head).to_bytes(2, "big") + head + blob


def _kserve_grpc() -> Iterator[bytes]:
    for datatype, field, value in (("FP32", "fp32_contents", 1.5), ("INT8", "int_contents", -3), ("BYTES", "", b"")):
        message = grpc_messages.message_class("inference.ModelInferRequest")(model_name="m", id="7")
        tensor = message.inputs.add(name="x", datatype=datatype, shape=[1, 1])
        if field:
            getattr(tensor.contents, field).append(value)
        else:
            message.raw_input_contents.append(b"\2\0\0\0ab")
        yield message.SerializeToString()


def _native_resize() -> Iterator[bytes]:
    for kind in range(4):
        sizes = b"".join(size.to_bytes(2, "big") for size in (66 + kind, 44, 23, 30 + 20 * kind))
        yield sizes + bytes([kind, kind % 2, 0, 0, 255, 255]) + bytes(range(256))
    yield sizes + bytes([2, 1, 20, 60, 200, 100]) + bytes(range(0, 256, 7))


_MAKERS: dict[str, Callable[[], Iterator[bytes]]] = {
    "image": _images,
    "jpeg": partial(_images, b"\xff\xd8\xff"),
    "image_of_any_size": _images,
    "json_numbers": _json,
    "json_images": _json,
    "csv": _csv,
    "tiff": partial(_images, b"II", b"MM"),
    "npy": _npy,
    "npz": _npz,
    "codecs": _codecs,
    "multipart": _multipart,
    "gzip": _gzip,
    "kserve": _kserve,
    "kserve_grpc": _kserve_grpc,
    "native_resize": _native_resize,
    "stream_frames": _stream_frames,
}
