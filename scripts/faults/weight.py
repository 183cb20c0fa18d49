"""Requests that take most memory, in a container of 1 GiB."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from benchmark.models import link
from benchmark.servers import Running, Stack
from faults.callers import Act, any_of, ping
from faults.client import Request
from faults.fault import Fault, Target
from faults.good import IMAGE, invocation, learn
from faults.history import History
from faults.stack import VARIABLE, Traffic
from lightbox.model_runtime import cgroups

CONTAINER = 1 << 30
CALLERS, SECONDS = 40, 20.0
PLAIN, UNPACKED = 8 << 20, 99 << 20
UNITS = {
    "csv": ("/invocations", "text/csv", b"", b"1\n", b"1"),
    "lines": ("/invocations", "application/jsonlines", b"", b"[]\n", b"[]"),
    "json": ("/invocations", "application/json", b"[", b"[],", b"[]]"),
    "digits": ("/invocations", "application/json", b"[", b"[1,2,3,4],", b"[1,2,3,4]]"),
    "v2": ("/v2/models/rows/infer", "application/json", b'{"inputs":[', b'{"name":""},', b'{"name":""}]}'),
}
"""Many small values: path, media type, beginning, what is repeated, and end."""
EXPECTED = (200, 400, 413, 504)


def traffic(models: Path, folder: Path) -> Traffic:
    """Return a stack with two models, and few callers: a container of that size has room for no more."""
    settings = ((VARIABLE, "embedded"), ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "rows"))
    for name in ("rows", "mobilenet_v2"):
        link(folder / "container_models" / name, (models / name).absolute())
    row = invocation("rows CSV", "rows", b"1,2,3,4\n", "text/csv", "")

    def begin(server: Running, history: History) -> list[Act]:
        return [ping, *[partial(any_of, learn(server.address, [row], history))] * 2]

    return Traffic(Stack("container", folder / "container_models", settings), begin)


def faults(forbidden: str) -> list[Fault]:
    """Return the faults of memory."""
    return [
        Fault("requests that take most memory", partial(_send, _heaviest), may=(504,), forbidden=forbidden),
        Fault("pictures of 48 megapixels", partial(_send, _pictures), may=(504,), forbidden=forbidden),
    ]


def _send(make: Callable[[], Sequence[Request]], target: Target) -> None:
    target.call([partial(any_of, make())] * CALLERS, SECONDS * target.lasting)


def _heaviest() -> list[Request]:
    requests = []
    for name, (path, content_type, head, unit, tail) in UNITS.items():
        plain, unpacked = (head + unit * (size // len(unit)) + tail for size in (PLAIN, UNPACKED))
        request = Request(name, path, {"Content-Type": content_type}, plain, expected=EXPECTED)
        headers = {**request.headers, "Content-Encoding": "gzip"}
        requests += [request, replace(request, name=f"{name} packed", headers=headers, body=gzip.compress(unpacked, 1))]
    return requests


def _pictures() -> list[Request]:
    small = np.random.default_rng(0).integers(0, 255, (150, 200, 3), np.uint8)
    found = []
    for orientation in (1, 6):
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = orientation
        Image.fromarray(small).resize((8000, 6000), Image.Resampling.BICUBIC).save(file, "JPEG", quality=75, exif=exif)
        found.append(invocation(f"photo, orientation {orientation}", "mobilenet_v2", file.getvalue(), IMAGE))
    return found


@contextmanager
def container() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the words that start a program in a cgroup of 1 GiB, and why this machine has none."""
    own = next((folder for folder in cgroups.chain("memory") if (folder / "cgroup.procs").exists()), None)
    if own is None or os.geteuid() != 0:
        yield (), "needs root and a cgroup with the memory controller"
        return
    folder = own / f"lightbox-{os.getpid()}"
    try:
        folder.mkdir()
        is_v2 = (folder / "memory.max").exists()
        (folder / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(str(CONTAINER))
    except OSError as error:
        yield (), f"needs a cgroup with a limit: {error}"
        return
    try:
        yield ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(folder / "cgroup.procs")), ""
    finally:
        folder.rmdir()
