"""TensorFlow Serving's official gRPC stubs; see ``messages`` for how they work without TensorFlow."""

from __future__ import annotations

from lightbox.model_runtime.wire.messages import placeholder_tensorflow

with placeholder_tensorflow():
    from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

__all__ = ["model_service_pb2_grpc", "prediction_service_pb2_grpc"]
