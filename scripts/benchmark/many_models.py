"""Does invoking one model cost more when many are loaded? ``python -m benchmark.many_models [COUNT]``.

Starts a stack in multi-model mode, times one model alone, loads COUNT - 1 more, times it again, unloads the others and
times it once more, to tell growth from drift.
"""

from __future__ import annotations

import io
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmark.servers.base import REPOSITORY, Running
from benchmark.servers.stack import Stack
from lightbox.harness.http_client import Client

MODEL = REPOSITORY / "tests" / "contract" / "golden" / "models" / "image_mean"
CALLS = 400


def main(count: int) -> None:
    """Print a table of medians and their ratios to one model alone."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "models"
        shutil.copytree(MODEL, root / "image_mean")
        settings = (("SAGEMAKER_MULTI_MODEL", "true"), ("LIGHTBOX_MODEL_SERVER", "embedded"))
        stack = Stack("many models", root, settings).start(Path(folder) / "run")
        try:
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
        finally:
            stack.stop()


def load(stack: Running, name: str) -> None:
    """Load the one model under another name."""
    send(stack, "POST", "/models", json.dumps({"model_name": name, "url": "image_mean"}).encode())


def measure(stack: Running) -> float:
    """Return the median of CALLS invocations of the first model, in milliseconds."""
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(buffer, "png")
    times = []
    with Client(stack.address.port) as client:
        for _ in range(CALLS):
            started = time.perf_counter()
            answer = client.send("POST", "/models/first/invoke", buffer.getvalue())
            assert answer.status == 200, answer.body
            times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def send(stack: Running, verb: str, path: str, body: bytes = b"") -> None:
    """Send a request that must succeed."""
    with Client(stack.address.port) as client:
        answer = client.send(verb, path, body)
    assert answer.status == 200, answer.body


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
