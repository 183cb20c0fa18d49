"""Requests that use much memory or CPU time for their size, one or more kinds for each reader, of any size."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flask import Flask

from lightbox.codecs import codec_classes
from lightbox.codecs.base import Reader
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from lightbox.model_runtime.wire.protobuf import varint
from support.fake_transport import FakeTransport
from support.fakes import fake_app, signature
from support.infer_requests import LENGTH

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
MODELS = {"float32": ("float32", None), "int64": ("int64", None), "string": ("string", None)}
PIXELS = "pixels"


@dataclass(frozen=True)
class Sent:
    """One request over HTTP; ``weight`` is the decompressed size of its body, if larger."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = "/invocations"
    weight: int = 0


def costly_app(environ: Mapping[str, str]) -> Flask:
    """Return an app with a model for each dtype and one for pixels, which answer at once."""

    def answer(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": np.zeros(1, np.float32)}

    fake = FakeTransport()
    for name, tensor in MODELS.items():
        fake.serve(signature(name, {"x": tensor}, {"y": ("float32", (None,))}), answer)
    fake.serve(signature(PIXELS, {"x": ("uint8", (None, 8, 8, 3))}, {"y": ("float32", (None,))}), answer)
    return fake_app(fake, {name: ModelOptions() for name in (*MODELS, PIXELS)}, environ)


def post(app: Flask, sent: Sent) -> Any:
    """Send a request to the app; return the response."""
    stream = io.BytesIO(sent.body)
    return app.test_client().post(
        sent.path, input_stream=stream, content_length=len(sent.body), headers=dict(sent.headers)
    )


def _repeated(unit: bytes, size: int, before: bytes = b"", after: bytes = b"") -> bytes:
    return before + unit * max(1, (size - len(before) - len(after)) // len(unit)) + after


def _body(content_type: str, unit: bytes, before: bytes = b"", after: bytes = b"", model: str = "float32") -> Make:
    headers = {"Content-Type": content_type, ATTRIBUTES: f"tfs-model-name={model}"}
    return lambda size: Sent(_repeated(unit, size, before, after), headers)


def _v2(unit: bytes, before: bytes, after: bytes) -> Make:
    return lambda size: Sent(_repeated(unit, size, before, after), path="/v2/models/float32/infer")


def _v2_names(size: int) -> Sent:
    """Distinct names: a check for duplicates must compare all of them."""
    names = b",".join(b'{"name":"%d"}' % index for index in range(size // 17))
    return Sent(b'{"inputs":[' + names + b"]}", path="/v2/models/float32/infer")


def _v2_data(size: int) -> Sent:
    count = size // 2
    head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[%d],"data":[' % count
    return Sent(head + b"1," * (count - 1) + b"1]}]}", path="/v2/models/float32/infer")


def _v2_binary(size: int) -> Sent:
    elements = b"\x02\x00\x00\x00ab" * (size // 6)
    head = b'{"inputs":[{"name":"x","datatype":"BYTES","shape":[%d],"parameters":{"binary_data_size":%d}}]}'
    text = head % (size // 6, len(elements))
    return Sent(text + elements, {LENGTH: str(len(text))}, "/v2/models/string/infer")


def _npy(array: Array, model: str) -> Sent:
    stream = io.BytesIO()
    np.save(stream, array)
    return Sent(stream.getvalue(), {"Content-Type": "application/x-npy", ATTRIBUTES: f"tfs-model-name={model}"})


def _npz(size: int) -> Sent:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.zeros(size // 4, np.float32))
    headers = {"Content-Type": "application/x-npz", ATTRIBUTES: "tfs-model-name=float32"}
    return Sent(stream.getvalue(), headers, weight=size)


def _form(size: int) -> Sent:
    part = b'--b\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\n' + b"x" * 200 + b"\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=b", ATTRIBUTES: f"tfs-model-name={PIXELS}"}
    return Sent(_repeated(part, size, after=b"--b--\r\n"), headers)


def _long_parts(size: int) -> Sent:
    part = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"\r\n--" * (size // 40) + b"\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=b", ATTRIBUTES: f"tfs-model-name={PIXELS}"}
    return Sent(part * 10 + b"--b--\r\n", headers)


def _gzip(make: Make) -> Make:
    def made(size: int) -> Sent:
        plain = make(size)
        return Sent(gzip.compress(plain.body, 1), {**plain.headers, "Content-Encoding": "gzip"}, plain.path, size)

    return made


def _header(name: str, unit: str, before: str = "", after: str = "") -> Make:
    def made(size: int) -> Sent:
        text = before + unit * (size // len(unit)) + after
        return Sent(b"[1]", {"Content-Type": "application/json", name: text})

    return made


Make = Callable[[int], Sent]
JSON, LINES, CSV = "application/json", "application/jsonlines", "text/csv"
BODIES: dict[str, Make] = {
    "json of empty lists": _body(JSON, b"[],", b"[", b"[]]"),
    "json of empty objects": _body(JSON, b"{},", b"[", b"{}]"),
    "json of small objects": _body(JSON, b'{"x":1},', b"[", b'{"x":1}]'),
    "json of digits": _body(JSON, b"1,", b"[", b"1]"),
    "json of digits as int64": _body(JSON, b"1,", b'{"instances":[', b"1]}", "int64"),
    "json of pixels": _body(JSON, b"[7,8,9],", b'{"instances":[', b"[7,8,9]]}"),
    "json of rows by name": _body(JSON, b'{"x":[1,2]},', b'{"instances":[', b'{"x":[1,2]}]}'),
    "json of uneven lists": _body(JSON, b"[1,2],[3],", b"[", b"[1]]"),
    "json of nulls": _body(JSON, b"null,", b"[", b"1]"),
    "json of NaN": _body(JSON, b"NaN,", b"[", b"1]"),
    "json of short strings": _body(JSON, b'"ab",', b"[", b'"ab"]', "string"),
    "json of escapes": _body(JSON, b'"\\u00e9",', b"[", b'"a"]', "string"),
    "json nested deep": _body(JSON, b"[", b"", b""),
    "json of one long number": _body(JSON, b"1", b"[", b"]"),
    "json of one long string": _body(JSON, b'\\"[1,', b'["', b'"]'),
    "json of values on a line": _body(JSON, b"1 "),
    "json of unclosed lists": _body(JSON, b"[1,"),
    "json lines of empty lists": _body(LINES, b"[]\n"),
    "json lines of digits": _body(LINES, b"[1]\n"),
    "json lines of objects": _body(LINES, b'{"x":1}\n'),
    "json lines that are blank": _body(LINES, b"\n", b"1", b"1"),
    "csv of one digit": _body(CSV, b"1\n"),
    "csv of int64": _body(CSV, b"1,2\n", model="int64"),
    "csv of fractions for int64": _body(CSV, b"1\n", after=b"1.0", model="int64"),
    "csv of short texts": _body(CSV, b"ab\n", model="string"),
    "csv of one long number": _body(CSV, b"1"),
    "csv of one quoted field": _body(CSV, b'""', b'"', b'"', "string"),
    "csv of no number": _body(CSV, b"1_"),
    "csv of one row": _body(CSV, b"1,"),
    "csv of one row of int64": _body(CSV, b"1,", after=b"1", model="int64"),
    "csv of one row of brackets": _body(CSV, b"[,"),
    "csv of empty fields": _body(CSV, b","),
    "csv of zero bytes": _body(CSV, b"\0"),
    "csv of blank rows": _body(CSV, b"\n", b"1"),
    "v2 of inputs": _v2(b'{"name":""},', b'{"inputs":[', b'{"name":""}]}'),
    "v2 of names": _v2_names,
    "v2 of outputs": _v2(b'{"name":""},', b'{"inputs":[{"name":"x"}],"outputs":[', b'{"name":""}]}'),
    "v2 of digits": _v2_data,
    "v2 binary": _v2_binary,
    "npy of short strings": lambda size: _npy(np.full(size // 2, b"ab"), "string"),
    "npy of bytes": lambda size: _npy(np.zeros(size, np.uint8), "float32"),
    "npz": _npz,
    "form": _form,
    "form of almost boundaries": _long_parts,
}
BODIES |= {
    f"gzip of {name}": _gzip(BODIES[name])
    for name in ("csv of one row", "json of empty lists", "json lines of empty lists", "v2 of inputs")
}
MEDIA_TYPES = [name for codec in codec_classes() if issubclass(codec, Reader) for name in codec.media_types]
BODIES |= {f"{name} of lines": _body(name, b"11111111\n") for name in MEDIA_TYPES}
"""Of every codec, whatever it reads, beside what tempts those above."""
HEADERS: dict[str, Make] = {
    "accept of types": _header("Accept", "a/b,"),
    "accept of quotes": _header("Accept", 'a/b;c="'),
    "accept of escapes": _header("Accept", '"\\'),
    "accept of semicolons": _header("Accept", ";", "a/b"),
    "content type of parameters": _header("Content-Type", ';a="', JSON),
    "content type of escapes": _header("Content-Type", '\\"', JSON + ';a="'),
    "content type of blanks": _header("Content-Type", "; ", JSON),
    "attributes of pairs": _header(ATTRIBUTES, "a=b,"),
    "attributes of names": _header(ATTRIBUTES, "tfs-model-name=float32,"),
    "attributes of equals": _header(ATTRIBUTES, "="),
    "attributes of prefixes": _header(ATTRIBUTES, "tfs-"),
}

GRPC: dict[str, Callable[[int], bytes]] = {
    "inputs": lambda size: b"\x2a\x00" * (size // 2),
    "outputs": lambda size: b"\x32\x00" * (size // 2),
    "parameters": lambda size: b"\x22\x00" * (size // 2),
    "no field that is known": lambda size: b"\x7a\x00" * (size // 2),
    "numbers of one byte": lambda size: _typed("INT64", size, b"\x1a" + varint(size) + b"\x01" * size),
    "strings of two bytes": lambda size: _typed("BYTES", size // 4, b"\x42\x02ab" * (size // 4)),
    "empty strings": lambda size: _typed("BYTES", size // 2, b"\x42\x00" * (size // 2)),
    "numbers one by one": lambda size: _typed("INT64", size // 2, b"\x18\x01" * (size // 2)),
}
"""Serialized messages of about ``size`` bytes for the method ModelInfer."""


def _typed(datatype: str, count: int, contents: bytes) -> bytes:
    shape = varint(count)
    head = b"\x0a\x01x\x12" + varint(len(datatype)) + datatype.encode() + b"\x1a" + varint(len(shape)) + shape
    tensor = head + b"\x2a" + varint(len(contents)) + contents
    model = b"string" if datatype == "BYTES" else b"int64"
    return b"\x0a" + varint(len(model)) + model + b"\x2a" + varint(len(tensor)) + tensor
