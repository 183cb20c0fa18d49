"""Predict over gRPC: sends arrays, returns arrays or an error code."""

from __future__ import annotations

from collections.abc import Mapping

import grpc

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import predict_pb2
from support.tempting_models import Answer

METHOD = "/tensorflow.serving.PredictionService/Predict"
SECONDS = 120.0


def predict(channel: grpc.Channel, model: str, signature: str, feeds: Mapping[str, Array]) -> Answer:
    """Send one request; return the answer with the name of its status."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, array in feeds.items():
        request.inputs[name].ParseFromString(b"".join(tensor_proto.encode(array, as_content=True)))
    try:
        reply = channel.unary_unary(METHOD)(request.SerializeToString(), timeout=SECONDS)
    except grpc.RpcError as error:
        return Answer(error.code().name)
    outputs = predict_pb2.PredictResponse.FromString(reply).outputs
    return Answer(outputs={name: tensor_proto.decode(tensor) for name, tensor in outputs.items()})
