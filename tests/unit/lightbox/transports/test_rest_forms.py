"""The REST transport sends rows where it can, and columns for models without rows. The arrays are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
import pytest
from urllib3 import connection_from_url

from lightbox.base.errors import BadRequest
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.server.rest.rest_json import write_predict
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import StatusError, invalid
from lightbox.transports.rest import RestTransport
from support.http_server import answering_posts
from support.parameters import each
from support.patience import PATIENCE

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
Shape = tuple[int | None, ...] | None


@contextmanager
def served(run: Run, dtype: int = dtypes.DT_FLOAT) -> Iterator[tuple[RestTransport, list[str]]]:
    """Serve a model with the REST reader and writer; yield a transport to it and the form of each request."""
    forms: list[str] = []

    def answer(body: bytes) -> tuple[int, bytes]:
        asked = read_predict(body, lambda _: {"x": dtype})
        forms.append("rows" if asked.by_row else "columns")
        try:
            return 200, write_predict(run(asked.inputs), asked.by_row)
        except StatusError as error:
            return 400, orjson.dumps({"error": error.message})

    with answering_posts(answer) as url:
        transport = RestTransport(connection_from_url(url))
        try:
            yield transport, forms
        finally:
            transport.close()


def call(x: Array, outputs: Mapping[str, Shape], dtype: str = "float32", wanted: tuple[str, ...] = ()) -> ModelCall:
    """Return a call of a model with one input and float outputs of these shapes."""
    given = {"x": TensorSpec("x", dtype, (None,) * x.ndim)}
    taken = {name: TensorSpec(name, "float32", shape) for name, shape in outputs.items()}
    return ModelCall(SignatureSpec("net", 1, "serving_default", given, taken), {"x": x}, wanted)


def image(count: int = 2) -> Array:
    """Float images that are large enough for a table of their numbers."""
    pixels = np.random.default_rng(4).integers(0, 256, (count, 60, 50, 3)).astype(np.float32)
    return pixels / np.float32(127.5) - np.float32(1)


@pytest.mark.parametrize("count", [1, 2])
def test_images_and_answers_go_by_rows(count: int) -> None:
    came: list[Array] = []

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        came.append(inputs["x"])
        return {"a": np.full((count, 2), 0.5, np.float32), "b": np.arange(count, dtype=np.float32)}

    with served(run) as (transport, forms):
        found = transport.predict(
            call(image(count), {"a": (None, 2), "b": (None,)}, wanted=("b",)), RequestContext(PATIENCE)
        )
    np.testing.assert_array_equal(came[0], image(count))
    assert (forms, list(found), found["b"].tolist()) == (["rows"], ["b"], list(range(count)))
    assert found["b"].dtype == np.float32


def test_a_model_whose_outputs_have_no_rows_in_common_is_asked_by_columns_from_then_on() -> None:
    def run(_: Mapping[str, Array]) -> dict[str, Array]:
        return {"a": np.ones((2, 2), np.float32), "b": np.ones(3, np.float32)}

    with served(run) as (transport, forms):
        for _ in range(3):
            found = transport.predict(
                call(np.ones(2, np.float32), {"a": (None, 2), "b": (None,)}), RequestContext(PATIENCE)
            )
            assert {name: array.shape for name, array in found.items()} == {"a": (2, 2), "b": (3,)}
    assert forms == ["rows", "columns", "columns", "columns"]


@each(
    ("x", "shape", "others"),
    [
        (np.float32(1), (None,), {}),  # the input has no rows
        (np.zeros((0, 2), np.float32), (None,), {}),  # zero rows
        (np.ones(2, np.float32), (), {}),  # the output is a bare number
        (np.ones(2, np.float32), None, {}),  # the output's shape is unknown
        (np.ones(2, np.float32), (None,), {"z": (7,)}),
    ],
)
def test_calls_without_rows_go_by_columns(x: Any, shape: Shape, others: dict[str, Shape]) -> None:
    answers: dict[str, Array] = {"y": np.ones(2 if shape else (), np.float32)}
    answers |= {name: np.ones(7, np.float32) for name in others}
    with served(lambda _: answers) as (transport, forms):
        found = transport.predict(call(np.asarray(x), {"y": shape, **others}), RequestContext(PATIENCE))
    assert forms == ["columns"]
    for name, array in answers.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_byte_strings_go_by_rows_too() -> None:
    strings = np.array([b"\xff\xd8", b""], object)
    came: list[Any] = []

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        came.extend(inputs["x"].tolist())
        return {"y": np.ones(2, np.float32)}

    with served(run, dtypes.DT_STRING) as (transport, forms):
        transport.predict(call(strings, {"y": (None,)}, "string"), RequestContext(PATIENCE))
    assert (came, forms) == ([b"\xff\xd8", b""], ["rows"])


def test_another_refusal_is_not_asked_again() -> None:
    def run(_: Mapping[str, Array]) -> dict[str, Array]:
        raise invalid("no such thing")

    with served(run) as (transport, forms), pytest.raises(BadRequest, match="no such thing"):
        transport.predict(call(np.ones(2, np.float32), {"y": (None,)}), RequestContext(PATIENCE))
    assert forms == ["rows"]
