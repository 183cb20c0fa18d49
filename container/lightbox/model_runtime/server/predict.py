"""Predict: from named arrays to named arrays, with tensorflow_model_server's checks and texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import config_pb2, meta_graph_pb2, predict_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

DEFAULT_SIGNATURE = "serving_default"
NOTHING_LEFT_OUT: Mapping[str, memoryview] = MappingProxyType({})
_OF_ROWS = (Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.INTERNAL, Code.UNKNOWN)
"""Errors of engines whose reason may be the number of rows."""
SignatureDef: TypeAlias = meta_graph_pb2.SignatureDef


def run_options(seconds: float | None) -> bytes:
    """Return serialized ``RunOptions`` with a time limit, empty for none."""
    if seconds is None:
        return b""
    milliseconds = min(max(1, int(seconds * 1000)), 2**31 - 1)
    return bytes(config_pb2.RunOptions(timeout_in_ms=milliseconds).SerializeToString())


def find_signature(session: Runner, name: str) -> SignatureDef:
    """Return the signature; raise FAILED_PRECONDITION if the model has none of that name."""
    signature = session.signatures.get(name)
    if signature is None:
        raise StatusError(Code.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
    return signature


def names(keys: Iterable[str]) -> str:
    """Return keys in tensorflow_model_server's form of a list."""
    return ",".join(sorted(keys))


def _check_size(signature: SignatureDef, given: Collection[str]) -> None:
    if len(given) == len(signature.inputs):
        return
    sent, expected = set(given), set(signature.inputs)
    if len(sent) > len(expected) or not signature.defaults:
        raise invalid(
            f"input size does not match signature: {len(sent)}!={len(expected)} "
            f"len({{{names(sent)}}}) != len({{{names(expected)}}}). "
            f"Sent extra: {{{names(sent - expected)}}}. Missing but required: {{{names(expected - sent)}}}."
        )


def decode_inputs(
    signature: SignatureDef, request: predict_pb2.PredictRequest, contents: Mapping[str, memoryview]
) -> dict[str, Array]:
    """Return the arrays of a request by tensor name; raise INVALID_ARGUMENT if they do not fit.

    ``contents`` are the inputs' contents that the request omits.
    """
    _check_size(signature, request.inputs)
    feeds = {}
    for alias in signature.inputs:  # its ``items`` is a loop in Python
        if alias in request.inputs:
            proto = request.inputs[alias]
        elif alias in signature.defaults:
            proto = signature.defaults[alias]
        else:
            raise _missing(signature, request, alias)
        try:
            feeds[signature.inputs[alias].name] = tensor_proto.decode(proto, contents.get(alias))
        except tensor_proto.MalformedTensor:
            raise invalid(f"tensor parsing error: {alias}") from None
    return feeds


def _missing(signature: SignatureDef, request: predict_pb2.PredictRequest, alias: str) -> StatusError:
    return invalid(
        f"Signature input alias: {alias}(feed name: {signature.inputs[alias].name}) not found in request "
        f"and no default value provided. Inputs expected to be in the request {{{names(request.inputs)}}}, "
        f"or default input alias set: {names(signature.defaults)}"
    )


def choose_outputs(signature: SignatureDef, requested: Sequence[str]) -> dict[str, str]:
    """Return alias to tensor name for the outputs of a filter, or for all when it is empty."""
    if not requested:
        return {alias: signature.outputs[alias].name for alias in signature.outputs}
    chosen: dict[str, str] = {}
    for alias in requested:
        if alias not in signature.outputs:
            text = f"output tensor alias not found in signature: {alias} Outputs expected to be in the set"
            raise invalid(f"{text} {{{names(signature.outputs)}}}.")
        if alias in chosen:
            raise invalid(f"duplicate output tensor alias: {alias}")
        chosen[alias] = signature.outputs[alias].name
    return chosen


def run(session: Runner, feeds: Mapping[str, Array], fetches: Mapping[str, str], options: bytes) -> dict[str, Array]:
    """Run tensor names to arrays and return the arrays by alias."""
    outputs = list(fetches.values())
    try:
        return dict(zip(fetches, session.run(feeds, outputs, options), strict=True))
    except StatusError as error:
        rows = {array.shape[0] if array.ndim else 0 for array in feeds.values()}
        is_of_rows = len(rows) == 1 and rows.isdisjoint({0, 1}) and error.code in _OF_ROWS
        if not is_of_rows or not _takes_one_row_only(session, feeds, outputs, options):
            raise
        text = f"the model answers one row, such as an image, per call, got {rows.pop()}: send a request for each"
        raise invalid(f"{text}; {error.message}") from None


def _takes_one_row_only(session: Runner, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes) -> bool:
    """Return whether the first row is answered alone, and not twice in one call."""
    first = {name: array[:1] for name, array in feeds.items()}
    try:
        session.run(first, fetches, options)
    except StatusError:
        return False
    try:
        session.run({name: row.repeat(2, axis=0) for name, row in first.items()}, fetches, options)
    except StatusError as error:
        return error.code in _OF_ROWS
    return False


def predict(
    session: Runner,
    signature: SignatureDef,
    request: predict_pb2.PredictRequest,
    options: bytes,
    contents: Mapping[str, memoryview] = NOTHING_LEFT_OUT,
) -> dict[str, Array]:
    """Answer a gRPC request with one of the model's signatures; return the outputs by alias.

    ``contents`` are the inputs' contents that the request omits.
    """
    feeds = decode_inputs(signature, request, contents)
    return run(session, feeds, choose_outputs(signature, request.output_filter), options)
