"""Responses in every media type equal NumPy's own output."""

from __future__ import annotations

import csv
import io
import json
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lightbox.base.errors import NotAcceptable
from lightbox.codecs import Codecs, check_single
from lightbox.codecs.base import Response
from lightbox.model.spec import Array, Layout, Prediction
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.parameters import each

CODECS = Codecs(codec_options(load_settings({})))
WRITERS = CODECS.writers
ROWS = np.array([[1, 2.5], [np.nan, -np.inf]], np.float32)
COUNTS = np.array([3, 4], np.int64)


def strings(*items: bytes) -> Array:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def encode(media_type: str, layout: Layout = Layout.BATCH, batch: int | None = 2, **outputs: Array) -> Response:
    return WRITERS[media_type].encode(Prediction(outputs, layout, batch))


def text(media_type: str, layout: Layout = Layout.BATCH, batch: int | None = 2, **outputs: Array) -> str:
    return encode(media_type, layout, batch, **outputs).body.decode()


def laid_out(media_type: str, layout: Layout, outputs: dict[str, Array]) -> str:
    return WRITERS[media_type].encode(Prediction(outputs, layout, 2)).body.decode()


@each(
    ("layout", "outputs", "expected"),
    [
        (Layout.BATCH, {"y": ROWS}, '{"predictions":[[1.0,2.5],[NaN,-Infinity]]}'),
        (Layout.INSTANCES, {"y": ROWS}, '{"predictions":[[1.0,2.5],[NaN,-Infinity]]}'),
        (Layout.COLUMNS, {"y": ROWS}, '{"outputs":[[1.0,2.5],[NaN,-Infinity]]}'),
        (Layout.BATCH, {"y": COUNTS, "z": ROWS}, '{"predictions":[{"y":3,"z":[1.0,2.5]},{"y":4,"z":[NaN,-Infinity]}]}'),
        (Layout.COLUMNS, {"y": COUNTS, "z": ROWS}, '{"outputs":{"y":[3,4],"z":[[1.0,2.5],[NaN,-Infinity]]}}'),
        (Layout.BATCH, {"y": np.float32(0.1)}, '{"outputs":{"y":0.1}}'),
        (Layout.INSTANCES, {"y": COUNTS, "z": np.float32(0.1)}, '{"outputs":{"y":[3,4],"z":0.1}}'),
        (Layout.COLUMNS, {"y": np.float32(0.1)}, '{"outputs":0.1}'),
        (Layout.BATCH, {"y": np.zeros(3, np.int8)}, '{"outputs":{"y":[0,0,0]}}'),
        (Layout.INSTANCES, {"y": np.zeros(3, np.int8)}, '{"predictions":[0,0,0]}'),
        (Layout.BATCH, {"y": np.array([True, False])}, '{"predictions":[true,false]}'),
        (Layout.BATCH, {"y": strings(b"a", "é".encode())}, '{"predictions":["a","é"]}'),
        (Layout.BATCH, {"y": strings(b"a", b"\xff")}, '{"predictions":["a",{"b64":"/w=="}]}'),
        (Layout.BATCH, {"y_bytes": strings(b"a", b"b")}, '{"predictions":[{"b64":"YQ=="},{"b64":"Yg=="}]}'),
        (
            Layout.BATCH,
            {"y": strings(b"a", b"b"), "z": COUNTS},
            '{"predictions":[{"y":"a","z":3},{"y":"b","z":4}]}',
        ),
        (Layout.INSTANCES, {"y": np.zeros((0, 3))}, '{"outputs":{"y":[]}}'),
        (Layout.BATCH, {"y": np.zeros((2, 0))}, '{"predictions":[[],[]]}'),
    ],
)
def test_json_is_laid_out_as_tensorflow_serving_does(layout: Layout, outputs: dict[str, Array], expected: str) -> None:
    assert laid_out("application/json", layout, outputs) == expected


@each(
    ("layout", "outputs", "expected"),
    [
        (Layout.BATCH, {"y": ROWS}, "[1.0,2.5]\n[NaN,-Infinity]\n"),
        (Layout.BATCH, {"y": COUNTS}, "3\n4\n"),
        (Layout.BATCH, {"y": COUNTS, "z": ROWS}, '{"y":3,"z":[1.0,2.5]}\n{"y":4,"z":[NaN,-Infinity]}\n'),
        (Layout.BATCH, {"y": strings(b"a\n", b"b")}, '"a\\n"\n"b"\n'),
        (Layout.COLUMNS, {"y": COUNTS}, "[3,4]\n"),
        (Layout.BATCH, {"y": np.float32(0.5)}, '{"y":0.5}\n'),
        (Layout.BATCH, {"y": np.zeros((2, 2, 0))}, "[[],[]]\n[[],[]]\n"),
    ],
)
def test_jsonlines_has_one_prediction_a_line(layout: Layout, outputs: dict[str, Array], expected: str) -> None:
    assert laid_out("application/jsonlines", layout, outputs) == expected


@each(
    ("array", "expected"),
    [
        (ROWS, "1.0,2.5\nNaN,-Infinity\n"),
        (COUNTS, "3\n4\n"),
        (np.float32(0.5), "0.5\n"),
        (np.array([True, False]), "true\nfalse\n"),
        (np.zeros((0, 3)), ""),
        (strings(b"a", b'say "b", c'), 'a\n"say ""b"", c"\n'),
        (strings(b"\xff"), "/w==\n"),
    ],
)
def test_csv_has_a_line_for_each_row(array: Array, expected: str) -> None:
    assert text("text/csv", y=array) == expected


def test_octet_stream_is_the_bytes_of_one_output() -> None:
    answer = encode("application/octet-stream", y=ROWS.astype(">f4"))
    assert answer.body == ROWS.tobytes()
    assert answer.headers == {"X-Lightbox-Output": "y", "X-Lightbox-Dtype": "float32", "X-Lightbox-Shape": "2,2"}
    assert encode("application/octet-stream", mask=strings(b"\x89PNG")).body == b"\x89PNG"


def test_npz_has_all_outputs_by_name() -> None:
    found = np.load(io.BytesIO(encode("application/x-npz", y=ROWS, file=COUNTS).body), allow_pickle=False)
    np.testing.assert_array_equal(found["y"], ROWS)
    np.testing.assert_array_equal(found["file"], COUNTS)


@each(
    ("media_type", "array"),
    [
        ("application/x-npy", strings(b"a")),
        ("application/x-npz", strings(b"a")),
        ("application/octet-stream", strings(b"a", b"b")),
        ("application/json", np.array([1j, 2j])),
        ("application/jsonlines", np.array([1j, 2j])),
        ("text/csv", np.array([1j, 2j])),
    ],
)
def test_what_a_media_type_cannot_hold_is_not_acceptable(media_type: str, array: Array) -> None:
    with pytest.raises(NotAcceptable, match="accept application/"):
        encode(media_type, y=array)


def test_several_outputs_need_a_media_type_that_holds_them() -> None:
    for media_type, codec in WRITERS.items():
        check_single(codec, 1)
        if codec.single:
            with pytest.raises(NotAcceptable, match=f"{media_type} holds one output and this model gives 3"):
                check_single(codec, 3)


def test_json_lines_may_be_awss_document() -> None:
    def answer(accept: str, jsonlines: Literal["rows", "document"]) -> tuple[bytes, str]:
        outputs, as_document = {"y": np.array([1.5, 2], "f4")}, jsonlines == "document"
        found = CODECS.negotiate(accept).encode(Prediction(outputs, batch=2, lines_as_document=as_document))
        return found.body, found.content_type

    assert answer("application/jsonlines", "rows") == (b"1.5\n2.0\n", "application/jsonlines")
    assert answer("application/jsonlines", "document") == (b'{"predictions":[1.5,2.0]}', "application/jsonlines")
    for accept in ("", "*/*", "application/json", "application/jsonlines;q=0.1, application/json"):
        assert (
            answer(accept, "document") == answer(accept, "rows") == (b'{"predictions":[1.5,2.0]}', "application/json")
        )


def test_an_accept_header_that_nothing_serves_names_what_does() -> None:
    with pytest.raises(NotAcceptable, match=r"application/json, .*text/csv, .*got 'text/html'"):
        CODECS.negotiate("text/html")


NUMBERS = hnp.arrays(
    st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.uint64, np.bool_]),
    hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
)


@pytest.mark.extended
@given(NUMBERS)
def test_any_array_comes_back_from_every_media_type(array: Array) -> None:
    def same(values: object) -> None:
        np.testing.assert_array_equal(np.asarray(values, array.dtype).reshape(array.shape), array)

    batch = len(array)
    same(json.loads(text("application/json", batch=batch, y=array))["predictions"])
    same([json.loads(line) for line in text("application/jsonlines", batch=batch, y=array).splitlines()])
    rows = list(csv.reader(text("text/csv", batch=batch, y=array).splitlines()))
    same([[json.loads(field) for field in row] for row in rows])
    found = np.load(io.BytesIO(encode("application/x-npy", batch=batch, y=array).body), allow_pickle=False)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    raw = encode("application/octet-stream", batch=batch, y=array).body
    np.testing.assert_array_equal(np.frombuffer(raw, array.dtype).reshape(array.shape), array)
