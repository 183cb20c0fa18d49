"""A handler in the manner of AWS's sample, over REST: the tensor as nested lists in a JSON body."""

import io
import json
from typing import Any

import numpy as np
import requests
from PIL import Image

SIZES = {"mobilenet_v2": (224, 224), "efficientdet_d1": (640, 640)}
DETECTIONS = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")


def handler(data: Any, context: Any) -> tuple[str | bytes, str]:
    """Answer one image with all that a caller of this model uses."""
    image = Image.open(io.BytesIO(data.read())).convert("RGB").resize(SIZES[context.model_name])
    tensor = np.expand_dims(np.asarray(image), axis=0)
    if context.model_name == "mobilenet_v2":
        tensor = tensor.astype("float32") / 127.5 - 1.0
    body = json.dumps({"signature_name": "serving_default", "instances": tensor.tolist()})
    response = requests.post(context.rest_uri, data=body)  # noqa: S113 - the sample sets no timeout
    response.raise_for_status()
    if context.model_name == "mobilenet_v2":
        return response.content, context.accept_header
    predictions = [{name: row[name] for name in DETECTIONS} for row in response.json()["predictions"]]
    return json.dumps({"predictions": predictions}), context.accept_header
