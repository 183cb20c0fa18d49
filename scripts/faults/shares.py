"""Shares: the goodput and latency of one model's callers beside 50 of another model, or of a key at its limit.

Lightbox has one core, the callers another. Each figure is the median of alternating pairs, without and with the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import requests

from benchmark.clients import Call, Client, Load, Sample, client_process, run
from benchmark.clients.http import HttpClient
from benchmark.clients.infer import InferClient
from benchmark.models import link, save_function
from benchmark.servers import Address, Stack
from faults.good import ATTRIBUTES
from lightbox.tools.harness.percentiles import percentile
from lightbox.tools.harness.tables import padded_table

CALLERS, OTHERS = 4, 50
SETTLE_SECONDS, PAUSE_SECONDS = 4.0, 0.2
SLOW_SECONDS = 5
SIDE = 1024
"""Of the matrices that the slow model multiplies."""
KEYS = {"any": "infer,metrics", "limited": "infer rate=5/s"}
MANY = 1_000_000


@dataclass(frozen=True)
class Patient:
    """A client that waits a second after a refusal, as Retry-After says."""

    client: Client

    @asynccontextmanager
    async def connected(self, address: Address) -> AsyncIterator[Call]:
        """Connect as the client does."""
        async with self.client.connected(address) as call:

            async def patient(sample: Sample) -> None:
                try:
                    await call(sample)
                except Exception:
                    await asyncio.sleep(1)
                    raise

            yield patient


PIXELS = np.zeros((1, 8, 8, 3), "<f4")


def _grpc(model: str, key: str) -> InferClient:
    return InferClient(model, "FP32", PIXELS.shape, PIXELS.tobytes(), metadata=(("x-api-key", key),))


def _v2(model: str, key: str) -> HttpClient:
    client = _grpc(model, key).over_rest()
    return replace(client, headers={**client.headers, "X-API-Key": key})


def _invocations(model: str, key: str) -> HttpClient:
    headers = {ATTRIBUTES: f"tfs-model-name={model}", "X-API-Key": key}
    return HttpClient(json.dumps({"instances": PIXELS.tolist()}).encode(), "application/json", headers=headers)


APIS: dict[str, Callable[[str, str], Client]] = {"/invocations": _invocations, "v2": _v2, "gRPC": _grpc}


@dataclass(frozen=True)
class Beside:
    """The others: whom they call, with which key, and whether they wait after a refusal."""

    name: str
    model: str
    key: str = "any"
    waits: bool = True


BESIDE = (
    Beside("a handler that waits 5 s", "waits"),
    Beside("the handler, at once", "waits", waits=False),
    Beside("a model that computes 5 s", "computes"),
    Beside("a key of 5 requests/s", "digits", "limited"),
    Beside("the key, at once", "digits", "limited", waits=False),
)


def shares(samples: Path, folder: Path, pairs: int, seconds: float, only: str) -> Iterator[str]:
    """Measure ``pairs`` pairs of each whose name matches, yielding a line of each pair and then the table."""
    server_core, own_core = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {own_core})
    models, rows = _models(samples, folder / "models_of_shares"), []
    keys = folder / "keys_of_shares"
    keys.write_text("".join(f"{key} sha256:{hashlib.sha256(key.encode()).hexdigest()} {KEYS[key]}\n" for key in KEYS))
    for beside in (beside for beside in BESIDE if re.search(only, beside.name)):
        settings = [
            ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "digits"),
            ("LIGHTBOX_LINKED_FOLDERS", str(samples.absolute())),
        ]
        if beside.key != "any":
            settings.append(("LIGHTBOX_API_KEYS", str(keys)))
        within = ("taskset", "--cpu-list", str(server_core))
        stack = Stack("shares", models, tuple(settings), front=True, within=within)
        with closing(stack.start(folder)) as server:
            for api, client_of in APIS.items():
                found = []
                with client_process(client_of("digits", "any"), server.address) as measure:
                    measure(Load(100, CALLERS))
                    load = Load(MANY, CALLERS, most_seconds=seconds)
                    for _ in range(pairs):
                        alone = measure(load)
                        with _others(beside, client_of(beside.model, beside.key), server.address):
                            found.append((alone, measure(load)))
                        yield f"{beside.name}, {api}: {_figures(found[-1:])}"
                rows.append((beside.name, api, *_figures(found)))
    yield "\n".join(padded_table(("beside 50 callers of", "API", "goodput", "p99", "alone"), rows))


def _figures(pairs: list[tuple[Sample, Sample]]) -> tuple[str, str, str]:
    """Return goodput and p99 with the others, divided by those without, and the rate without: medians of the pairs."""
    goodput = median(with_others.rate / alone.rate for alone, with_others in pairs)
    p99 = median(percentile(beside.latencies, 99) / percentile(alone.latencies, 99) for alone, beside in pairs)
    return f"{goodput:.2f}", f"{p99:.1f} x", f"{median(alone.rate for alone, _ in pairs):.0f} requests/s"


@contextmanager
def _others(beside: Beside, client: Client, address: Address) -> Iterator[None]:
    """Let the others call in the ``with`` block, from a process that is killed at the end."""
    load = Load(MANY, OTHERS, most_seconds=600)
    others = multiprocessing.get_context("forkserver").Process(
        target=run, args=(Patient(client) if beside.waits else client, address, load)
    )
    others.start()
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        others.kill()
        others.join()
    while _of_model(address, beside.model):
        time.sleep(PAUSE_SECONDS)


def _of_model(address: Address, model: str) -> float:
    """Return how many requests of a model are in progress or wait."""
    text = requests.get(f"{address.url}/metrics", headers={"X-API-Key": "any"}, timeout=60).text
    start = f'lightbox_model_requests{{model="{model}"}} '
    return sum(float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start))


def _models(samples: Path, folder: Path) -> Path:
    """Return a folder of ``digits``, the same with a handler that waits, and a network that computes for as long."""
    link(folder / "digits", (samples / "digits").absolute())
    link(folder / "waits" / "1", (samples / "digits" / "1").absolute())
    code = folder / "waits" / "code"
    code.mkdir(exist_ok=True)
    source = (
        f"import time\n\n\ndef postprocess(outputs, request):\n    time.sleep({SLOW_SECONDS})\n    return outputs\n"
    )
    (code / "inference.py").write_text(source)
    # A separate process, so that the one that runs the clients does not import TensorFlow.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        function = partial(_multiply, _steps())
        apart.submit(save_function, folder / "computes", function, "input_tensor", "float32", (8, 8, 3)).result()
    return folder


def _steps() -> int:
    """Return how many products of matrices one core computes in the time of the slow model."""
    square, many = np.ones((SIDE, SIDE), np.float32), 10
    began = time.perf_counter()
    for _ in range(many):
        square @ square
    return int(many * SLOW_SECONDS / (time.perf_counter() - began))


def _multiply(steps: int, x: Any) -> dict[str, Any]:
    import tensorflow as tf

    first = tf.fill((SIDE, SIDE), tf.reduce_mean(x))
    _, last = tf.while_loop(lambda step, _: step < steps, lambda step, m: (step + 1, tf.sin(m @ first)), (0, first))
    return {"mean": tf.zeros(tf.shape(x)[:1]) + tf.reduce_mean(last)}
