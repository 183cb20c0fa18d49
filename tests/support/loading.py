"""Calls of SageMaker's multi-model API, as the platform makes them."""

from __future__ import annotations

import numpy as np
import requests

from support.fakes import png
from support.patience import PATIENCE
from support.stack import Stack

IMAGE = png(np.zeros((8, 8, 3)))


def load(stack: Stack, name: object, url: object) -> requests.Response:
    return requests.post(f"{stack.url}/models", json={"model_name": name, "url": str(url)}, timeout=PATIENCE)


def invoke(stack: Stack, name: str, body: bytes = IMAGE, wire: str | None = None) -> requests.Response:
    headers = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-transport={wire}"} if wire else {}
    return requests.post(f"{stack.url}/models/{name}/invoke", data=body, headers=headers, timeout=PATIENCE)


def unload(stack: Stack, name: str) -> requests.Response:
    return requests.delete(f"{stack.url}/models/{name}", timeout=PATIENCE)
