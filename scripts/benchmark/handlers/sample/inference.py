"""A handler after AWS's sample; PREDICT_USING_GRPC selects its wire.

Over REST the tensor goes as nested lists in a JSON body; over gRPC TensorFlow's make_tensor_proto packs it, and
every call opens a channel. Both return the outputs that a caller uses.
"""

import io
import json
import os
from typing import Any

import grpc
import numpy as np
import requests
import tensorflow as tf
from PIL import Image
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

USE_GRPC = os.environ.get("PREDICT_USING_GRPC", "false") == "true"
SIZES = {"mobilenet_v2": (224, 224), "efficientdet_d1": (640, 640)}
OUTPUTS = {
    "mobilenet_v2": ("probabilities",),
    "efficientdet_d1": ("detection_boxes", "detection_classes", "detection_scores", "num_detections"),
}
MESSAGE_BYTES = 512 << 20


def handler(data: Any, context: Any) -> tuple[str | bytes, str]:
    """Answer one image."""
    image = Image.open(io.BytesIO(data.read())).convert("RGB").resize(SIZES[context.model_name])
    tensor = np.expand_dims(np.asarray(image), axis=0)
    if context.model_name == "mobilenet_v2":
        tensor = tensor.astype("float32") / 127.5 - 1.0
    return (over_grpc if USE_GRPC else over_rest)(tensor, context), context.accept_header


def over_rest(tensor: Any, context: Any) -> str | bytes:
    """POST the tensor; keep only the outputs that the caller uses."""
    body = json.dumps({"signature_name": "serving_default", "instances": tensor.tolist()})
    response = requests.post(context.rest_uri, data=body)  # noqa: S113 - the sample sets no timeout
    response.raise_for_status()
    names = OUTPUTS[context.model_name]
    if len(names) == 1:
        return response.content
    rows = [{name: row[name] for name in names} for row in response.json()["predictions"]]
    return json.dumps({"predictions": rows})


def over_grpc(tensor: Any, context: Any) -> str:
    """Call Predict over a new channel."""
    options = [("grpc.max_send_message_length", MESSAGE_BYTES), ("grpc.max_receive_message_length", MESSAGE_BYTES)]
    channel = grpc.insecure_channel(f"localhost:{context.grpc_port}", options=options)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = context.model_name
    request.model_spec.signature_name = "serving_default"
    request.inputs["input_tensor"].CopyFrom(tf.make_tensor_proto(tensor))
    result = stub.Predict(request, 60.0)
    names = OUTPUTS[context.model_name]
    values = {name: tf.make_ndarray(result.outputs[name])[0].tolist() for name in names}
    return json.dumps({"predictions": [values[names[0]] if len(names) == 1 else values]})
