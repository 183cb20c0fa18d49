"""Reading stops at the request's deadline: each reader that may take long checks it between two steps."""

from __future__ import annotations

import gzip

import pytest

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.request_context import RequestContext
from lightbox.codecs import Codecs
from lightbox.codecs.media_type import decoded_body
from lightbox.features.open_inference.rest.body import parse_body
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Method, SignatureSpec
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.costly import BODIES
from support.fakes import signature
from support.parameters import each

pytestmark = pytest.mark.extended

SIZE = 1 << 17
JSON = "application/json"


class Running(RequestContext):
    """A context whose deadline passes after ``looks`` checks."""

    def __init__(self, looks: int) -> None:
        super().__init__(30)
        self._looks = looks

    def remaining(self) -> float:
        self._looks -= 1
        return self._looks


def read(body: bytes, content_type: str, spec: SignatureSpec, context: RequestContext, method: Method) -> None:
    Codecs(codec_options(load_settings({}))).parse(body, content_type, method, context).decode(spec, ModelOptions())


@each("looks", [0, 1, 2])
@each(
    "name",
    [
        "json of digits",
        "json of pixels",
        "json of rows by name",
        "json lines of digits",
        "csv of one digit",
        "csv of one row",
        "form",
    ],
)
def test_a_body(name: str, looks: int) -> None:
    sent = BODIES[name](SIZE)
    spec = signature("net", {"x": ("float32", None)}, {"y": ("float32", (None,))})
    context = Running(looks)
    with pytest.raises(DeadlineExceeded):
        read(sent.body, sent.headers["Content-Type"], spec, context, Method.PREDICT)


@pytest.mark.parametrize("looks", [0, 1, 20])
def test_lists_that_must_be_walked(looks: int) -> None:
    body = b"[" + b'["a","b"],' * 50_000 + b'["a","b"]]'
    spec = signature("net", {"x": ("string", None)}, {"y": ("float32", (None,))})
    with pytest.raises(DeadlineExceeded):
        read(body, JSON, spec, Running(looks), Method.PREDICT)


@pytest.mark.parametrize("looks", [0, 3, 30])
def test_examples(looks: int) -> None:
    body = b'{"examples":[' + b'{"a":1},' * 1_000 + b'{"a":[' + b"1," * 100_000 + b"1]}]}"
    spec = signature("net", {"x": ("string", (None,))}, {"outputs": ("float32", (None,))})
    with pytest.raises(DeadlineExceeded):
        read(body, JSON, spec, Running(looks), Method.REGRESS)


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_the_open_inference_protocol(looks: int) -> None:
    with pytest.raises(DeadlineExceeded):
        parse_body(BODIES["v2 of digits"](SIZE).body, None, Running(looks))


@pytest.mark.parametrize("looks", [0, 1, 5])
def test_gzip(looks: int) -> None:
    with pytest.raises(DeadlineExceeded):
        decoded_body(gzip.compress(bytes(100 << 20)), "gzip", 200, Running(looks))
