"""Messages of TensorFlow Serving's API with millions of fields: none is parsed field by field beyond a limit."""

from __future__ import annotations

import pytest

from lightbox.base.errors import DeadlineExceeded, MalformedBody
from lightbox.base.request_context import RequestContext
from lightbox.features.tfs_api import forwarded_services as grpc_services
from lightbox.features.tfs_api.forwarded_services import PREDICT, TfsGrpc
from lightbox.model.plan import AnsweringServers
from lightbox.model_runtime.wire.predict_request import read_predict_head, read_predict_request
from lightbox.model_runtime.wire.protobuf import delimited
from support.fakes import mean_server
from support.grpc_front import make_pipeline
from support.parameters import each
from support.patience import PATIENCE

SERVICE = PREDICT.rpartition("/")[0]
SPEC = delimited(1, delimited(1, b"m"))
TENSOR = delimited(1, b"x") + delimited(2, b"\x08\1" + delimited(2, b"\x12\0" * 2000))
EXAMPLES = delimited(2, delimited(1, b"\x0a\0" * 2000))
MANY = b"\x0a\0" * 20_000


def answer(method: str, message: bytes, seconds: float = PATIENCE) -> None:
    work = TfsGrpc(make_pipeline(mean_server(), ["mean"]), [], AnsweringServers(()), PATIENCE).work(
        f"{SERVICE}/{method}"
    )
    work(message, lambda _: None, RequestContext(seconds))


@each(
    ("method", "message"),
    [
        *((method, SPEC + MANY) for method in ("Predict", "Classify", "Regress", "GetModelMetadata", "MultiInference")),
        ("Predict", SPEC + b"\x12\0" * 20_000),
        ("Predict", SPEC + b"\x1a\0" * 20_000),
        ("Predict", SPEC + delimited(2, TENSOR)),
        ("Classify", SPEC + EXAMPLES),
        ("Regress", SPEC + EXAMPLES),
        ("MultiInference", delimited(1, SPEC) + EXAMPLES),
    ],
)
def test_too_many_fields_are_refused(monkeypatch: pytest.MonkeyPatch, method: str, message: bytes) -> None:
    monkeypatch.setattr(grpc_services, "MOST_FIELDS", 1000)
    monkeypatch.setattr(grpc_services, "_FEW_BYTES", 2000)
    with pytest.raises(MalformedBody, match=r"^expected a \w+(:| of at most 16,384 fields)"):
        answer(method, message)


def test_readers_stop_at_the_deadline_and_leave_long_lists_to_c() -> None:
    with pytest.raises(DeadlineExceeded):
        answer("Predict", SPEC + b"\x1a\0" * 5000, seconds=0)
    longer = SPEC + delimited(2, delimited(1, b"x") + delimited(2, b"\x08\1" + delimited(2, b"\x12\0" * 20_000))) + MANY
    assert read_predict_head(longer)[1] == {"x": 20_000}
    request, contents = read_predict_request(memoryview(longer))
    assert (request.model_spec.name, contents) == ("m", {})
