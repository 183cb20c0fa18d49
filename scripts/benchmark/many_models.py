"""Does invoking one model cost more when many are loaded? ``python scripts/benchmark/many_models.py [COUNT]``.

Starts a stack in multi-model mode, times one model alone, loads COUNT - 1 more, times it again, unloads the others and
times it once more, to tell growth from drift.
"""

from __future__ import annotations

import http.client
import io
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.models import copy_golden
from support.stack import Stack, running

CALLS = 400


def main(count: int) -> None:
    """Print a table of medians and their ratios to one model alone."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "models"
        copy_golden("image_mean", root / "image_mean")
        with running(root, Path(folder) / "run", SAGEMAKER_MULTI_MODEL="true") as stack:
            load(stack, "first")
            measure(stack)
            alone = measure(stack)
            print(f"1 model loaded: {alone:.2f} ms", flush=True)
            for index in range(count - 1):
                load(stack, f"other{index}")
                if index % 20 == 19:
                    print(f"loaded {index + 2} of {count}", flush=True)
            many = measure(stack)
            print(f"{count} models loaded: {many:.2f} ms, ratio {many / alone:.2f}", flush=True)
            for index in range(count - 1):
                send(stack, "DELETE", f"/models/other{index}")
            again = measure(stack)
            print(f"1 model loaded again: {again:.2f} ms, ratio {again / alone:.2f}", flush=True)


def load(stack: Stack, name: str) -> None:
    """Load the one model under another name."""
    send(stack, "POST", "/models", json.dumps({"model_name": name, "url": "image_mean"}).encode())


def measure(stack: Stack) -> float:
    """Return the median of CALLS invocations of the first model, in milliseconds."""
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(buffer, "png")
    connection = http.client.HTTPConnection("127.0.0.1", stack.port)
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        connection.request("POST", "/models/first/invoke", buffer.getvalue())
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def send(stack: Stack, verb: str, path: str, body: bytes = b"") -> None:
    """Send a request that must succeed."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.port)
    connection.request(verb, path, body)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
