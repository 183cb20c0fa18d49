"""A handler of AWS's API for digits that calls the model over both wires directly, like handlers for that container.

It imports packages of that container and all our images: the extra "aws" of pyproject.toml.
"""

import io
import json
from typing import Any

import aiohttp
import boto3
import cloudpickle
import numpy as np
import packaging.version
import requests
import yaml
from numpy.typing import NDArray
from PIL import Image
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

FLOAT = 1
THERE = (aiohttp, boto3, cloudpickle, packaging, yaml)


def handler(data: Any, context: Any) -> tuple[str, str]:
    """Return the probabilities from each wire and the fields of the context."""
    pixels = np.asarray(Image.open(io.BytesIO(data.read())).convert("RGB"), np.float32)[np.newaxis] / np.float32(255)
    answer = {"rest": _over_rest(pixels, context), "grpc": _over_grpc(pixels, context), "model": context.model_name}
    return json.dumps(answer), "application/json"


def _over_rest(pixels: NDArray[np.float32], context: Any) -> Any:
    answer = requests.post(context.rest_uri, json={"instances": pixels.tolist()}, timeout=30)
    answer.raise_for_status()
    return answer.json()["predictions"][0]


def _over_grpc(pixels: NDArray[np.float32], context: Any) -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = context.model_name
    tensor = request.inputs["input_tensor"]
    tensor.dtype = FLOAT
    tensor.tensor_content = pixels.tobytes()
    for size in pixels.shape:
        tensor.tensor_shape.dim.add(size=size)
    (output,) = prediction_service_pb2_grpc.PredictionServiceStub(context.channel).Predict(request, 30).outputs.values()
    return list(output.float_val)
