"""Warm-up: a SavedModel's recorded requests run before it becomes available."""

from __future__ import annotations

import logging
from pathlib import Path

from lightbox.model_runtime.deadline import check_deadline
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server import classify, predict
from lightbox.model_runtime.server.multi_inference import multi_inference
from lightbox.model_runtime.server.servable import Servable
from lightbox.model_runtime.wire.messages import model_pb2, prediction_log_pb2
from lightbox.model_runtime.wire.records import WARM_UP_FILE, records
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

log = logging.getLogger(__name__)

MAX_RECORDS = 1000
_EXAMPLES = {"classify_log": classify.CLASSIFY, "regress_log": classify.REGRESS}


def warm_up(servable: Servable, session: Runner, iterations: int = 1) -> None:
    """Run every recorded request ``iterations`` times; raise StatusError for an unreadable or failing one."""
    path = Path(servable.path) / WARM_UP_FILE
    if not path.is_file():
        log.info("No warmup data file found at %s", path)
        return
    count = 0
    for count, record in enumerate(records(path), 1):
        if count > MAX_RECORDS:
            raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
        for _ in range(max(1, iterations)):
            check_deadline()
            _answer(session, _parse(record, path))
    log.info("Finished reading warmup data for model at %s. Number of warmup records read: %d.", path, count)


def _parse(record: bytes, path: Path) -> prediction_log_pb2.PredictionLog:
    try:
        return prediction_log_pb2.PredictionLog.FromString(record)
    except Exception:  # protobuf's DecodeError is not public
        raise invalid(f"Failed to parse warmup record: {record!r} from {path}") from None


def _answer(session: Runner, entry: prediction_log_pb2.PredictionLog) -> None:
    kind = entry.WhichOneof("log_type")
    if kind == "predict_log":
        asked = entry.predict_log.request
        name = asked.model_spec.signature_name or predict.DEFAULT_SIGNATURE
        predict.predict(session, predict.find_signature(session, name), asked, b"")
    elif kind in _EXAMPLES:
        request = getattr(entry, kind).request
        signature = classify.find_signature(session, request.model_spec.signature_name)
        classify.answer(_EXAMPLES[kind], session, signature, request.input, b"")
    elif kind == "multi_inference_log":
        multi_inference(session, entry.multi_inference_log.request, b"", lambda _: model_pb2.ModelSpec())
    else:
        raise StatusError(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")
