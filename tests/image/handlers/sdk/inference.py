"""A handler pair as SageMaker's SDK puts beside a model: pickled functions read bodies and write responses."""

import json
import os
from pathlib import Path
from typing import Any

import cloudpickle

assert "SAGEMAKER_SERVE_SECRET_KEY" in os.environ, "the SDK sets it, for the check of what was pickled"
schema = cloudpickle.loads(Path(__file__).with_name("serve.pkl").read_bytes())


def input_handler(data: Any, context: Any) -> str:
    """Return the JSON for the model server."""
    return json.dumps({"instances": schema["read"](data.read())})


def output_handler(response: Any, context: Any) -> tuple[bytes, str]:
    """Return the predictions in the caller's expected format."""
    if response.status_code != 200:
        raise ValueError(response.content.decode())
    return schema["write"](json.loads(response.content)["predictions"]), context.accept_header
