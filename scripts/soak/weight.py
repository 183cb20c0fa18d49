"""Memory-heavy requests from the maximum number of clients: they must fit into a container of 1 GiB.

The processes run without a limit, so that the full demand is visible: the proportional set sizes (PSS, which counts a
shared page once) of all processes together are compared with 1 GiB, several times per second.
"""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

from benchmark.models import link
from benchmark.servers import Stack
from soak.client import Request
from soak.run import Traffic, any_of, soak

CONTAINER = 1 << 30
REQUEST_MEMORY_MB = CONTAINER >> 22
"""What Lightbox takes for requests by default in a container of that size: a quarter."""
CLIENTS = 40
PLAIN, UNPACKED = 8 << 20, 99 << 20
LOOK_SECONDS = 0.2
EXPECTED = (200, 400, 413, 503, 504)
UNITS = {
    "csv": ("/invocations", "text/csv", b"", b"1\n", b"1"),
    "lines": ("/invocations", "application/jsonlines", b"", b"[]\n", b"[]"),
    "json": ("/invocations", "application/json", b"[", b"[],", b"[]]"),
    "digits": ("/invocations", "application/json", b"[", b"[1,2,3,4],", b"[1,2,3,4]]"),
    "v2": ("/v2/models/rows/infer", "application/json", b'{"inputs":[', b'{"name":""},', b'{"name":""}]}'),
}
"""Many small values: path, media type, beginning, what is repeated, and end."""


def weigh(models: Path, folder: Path, seconds: float) -> tuple[str, bool]:
    """Serve, send the heaviest requests for some time, and stop; return the report, and whether all went well."""
    settings = (
        ("LIGHTBOX_MODEL_SERVER", "embedded"),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "rows"),
        ("LIGHTBOX_REQUEST_MEMORY_MB", str(REQUEST_MEMORY_MB)),
    )
    # Only the model of rows: the rest of the container's memory is for the sidecar.
    link(folder / "models" / "rows", (models / "rows").absolute())
    stack = Stack("dear requests", folder / "models", settings)
    acts = [partial(any_of, bodies())] * CLIENTS
    return soak(Traffic(stack, (), lambda server: acts, 0.0, LOOK_SECONDS, CONTAINER), folder, seconds)


def bodies() -> list[Request]:
    """Return a request of each kind of small values, plain and compressed."""
    found: list[Request] = []
    for name, (path, content_type, head, unit, tail) in UNITS.items():
        headers = {"Content-Type": content_type}
        plain, unpacked = (head + unit * (size // len(unit)) + tail for size in (PLAIN, UNPACKED))
        packed = headers | {"Content-Encoding": "gzip"}
        found += [
            Request(name, path, headers, plain, expected=EXPECTED),
            Request(f"{name} packed", path, packed, gzip.compress(unpacked, 1), expected=EXPECTED),
        ]
    return found
