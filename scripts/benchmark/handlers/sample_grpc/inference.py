"""A handler in the manner of AWS's sample, over gRPC: TensorFlow's make_tensor_proto and a channel for each call."""

import io
import json
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from PIL import Image
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

SIZES = {"mobilenet_v2": (224, 224), "efficientdet_d1": (640, 640)}
OUTPUTS = {
    "mobilenet_v2": ("probabilities",),
    "efficientdet_d1": ("detection_boxes", "detection_classes", "detection_scores", "num_detections"),
}
MESSAGE_BYTES = 512 << 20


def handler(data: Any, context: Any) -> tuple[str | bytes, str]:
    """Answer one image with all that a caller of this model uses."""
    image = Image.open(io.BytesIO(data.read())).convert("RGB").resize(SIZES[context.model_name])
    tensor = np.expand_dims(np.asarray(image), axis=0)
    if context.model_name == "mobilenet_v2":
        tensor = tensor.astype("float32") / 127.5 - 1.0
    options = [("grpc.max_send_message_length", MESSAGE_BYTES), ("grpc.max_receive_message_length", MESSAGE_BYTES)]
    channel = grpc.insecure_channel(f"localhost:{context.grpc_port}", options=options)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = context.model_name
    request.model_spec.signature_name = "serving_default"
    request.inputs["input_tensor"].CopyFrom(tf.make_tensor_proto(tensor))
    result = stub.Predict(request, 60.0)
    rows = {name: tf.make_ndarray(result.outputs[name])[0].tolist() for name in OUTPUTS[context.model_name]}
    row = next(iter(rows.values())) if len(rows) == 1 else rows
    return json.dumps({"predictions": [row]}), context.accept_header
