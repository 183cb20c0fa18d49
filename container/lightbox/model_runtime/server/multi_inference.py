"""MultiInference: several classify and regress tasks over the same Examples in one run of the model."""

from __future__ import annotations

from collections.abc import Callable

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server import classify
from lightbox.model_runtime.server.classify import Plan
from lightbox.model_runtime.server.predict import DEFAULT_SIGNATURE
from lightbox.model_runtime.wire.messages import inference_pb2, model_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

_KINDS = {kind.method: kind for kind in (classify.CLASSIFY, classify.REGRESS)}


def multi_inference(
    session: Runner,
    request: inference_pb2.MultiInferenceRequest,
    options: bytes,
    model_spec: Callable[[str], model_pb2.ModelSpec],
) -> inference_pb2.MultiInferenceResponse:
    """Answer every task; ``model_spec`` returns the model and version of a response by its signature's name."""
    plans = _plans(session, request)
    examples = classify.serialized_examples(request.input)
    fetches = sorted({name for plan in plans for name in plan.fetches.values()})
    feeds = {plan.feed: examples for plan in plans}
    outputs = dict(zip(fetches, session.run(feeds, fetches, options), strict=True))
    response = inference_pb2.MultiInferenceResponse()
    for task, plan in zip(request.tasks, plans, strict=True):
        result = response.results.add()
        result.model_spec.CopyFrom(model_spec(task.model_spec.signature_name or DEFAULT_SIGNATURE))
        found = {alias: outputs[name] for alias, name in plan.fetches.items()}
        kind = _KINDS[task.method_name]
        getattr(result, f"{kind.name}_result").CopyFrom(kind.result(found, len(examples)))
    return response


def _plans(session: Runner, request: inference_pb2.MultiInferenceRequest) -> list[Plan]:
    model, seen, plans = "", set[str](), list[Plan]()
    for task in request.tasks:
        spec = task.model_spec
        if not spec.name:
            raise invalid("Found ModelSpec with an empty model name.")
        if model not in ("", spec.name):
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        model, name = spec.name, spec.signature_name or DEFAULT_SIGNATURE
        if name in seen:
            raise invalid(f"Duplicate evaluation of signature: {name}")
        seen.add(name)
        plans.append(_plan(session, name, task.method_name))
    return plans


def _plan(session: Runner, name: str, method: str) -> Plan:
    if name not in session.signatures:
        raise invalid(f"Requested signature not found in model graph: {name}")
    if method not in _KINDS:
        raise StatusError(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {method}")
    return _KINDS[method].plan(session.signatures[name])
