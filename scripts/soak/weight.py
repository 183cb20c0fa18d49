"""The traffic with the requests that take most memory."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmark.models import link
from benchmark.servers import Stack
from soak.client import Request
from soak.run import Traffic, any_of

CONTAINER = 1 << 30
REQUEST_MEMORY_MB = CONTAINER >> 22
"""Lightbox's default for the memory of requests in a container of that size: a quarter."""
HEAVY_CLIENTS = 40
PLAIN, UNPACKED = 8 << 20, 99 << 20
UNITS = {
    "csv": ("/invocations", "text/csv", b"", b"1\n", b"1"),
    "lines": ("/invocations", "application/jsonlines", b"", b"[]\n", b"[]"),
    "json": ("/invocations", "application/json", b"[", b"[],", b"[]]"),
    "digits": ("/invocations", "application/json", b"[", b"[1,2,3,4],", b"[1,2,3,4]]"),
    "v2": ("/v2/models/rows/infer", "application/json", b'{"inputs":[', b'{"name":""},', b'{"name":""}]}'),
}
"""Many small values: path, media type, beginning, what is repeated, and end."""


def heaviest_requests(models: Path, folder: Path) -> Traffic:
    """Return memory-heavy requests, plain and compressed, from the maximum number of clients.

    They must fit into a container of 1 GiB.
    The processes run without a limit, so that the full demand is visible: the proportional set sizes (PSS, which counts
    a shared page once) of all processes together are compared with 1 GiB, several times per second.
    """
    settings = (
        ("LIGHTBOX_MODEL_SERVER", "embedded"),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "rows"),
        ("LIGHTBOX_REQUEST_MEMORY_MB", str(REQUEST_MEMORY_MB)),
    )
    # Only the model of rows: the rest of the container's memory is for the sidecar.
    link(folder / "models" / "rows", (models / "rows").absolute())
    stack = Stack("dear requests", folder / "models", settings)
    expected, requests = (200, 400, 413, 503, 504), []
    for name, (path, content_type, head, unit, tail) in UNITS.items():
        plain, unpacked = (head + unit * (size // len(unit)) + tail for size in (PLAIN, UNPACKED))
        request = Request(name, path, {"Content-Type": content_type}, plain, expected=expected)
        headers = {**request.headers, "Content-Encoding": "gzip"}
        requests += [request, replace(request, name=f"{name} packed", headers=headers, body=gzip.compress(unpacked, 1))]
    acts = [partial(any_of, requests)] * HEAVY_CLIENTS
    return Traffic(stack, (), lambda server: acts, think_seconds=0.0, look_seconds=0.2, most_memory=CONTAINER)
