"""Measures the processor time of drawn answers against that of JSON and encoding: drawing_cost.py MODEL PHOTO ...

    PYTHONPATH=container:scripts python scripts/drawing_cost.py yolo11n-seg.onnx bus.jpg

For each photo it prints medians in milliseconds of all the server's processes, of requests in turns. A drawn answer
needs what JSON needs, without its text, and the encoding; what it takes beyond both is a share of JSON's.
LIGHTBOX_OPTIONS sets options of the model.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmark.resources import family
from lightbox.images.decode import decode_rgb
from lightbox.images.drawing import encoded
from lightbox.images.limits import ImageLimits
from lightbox.tools.harness.http_client import Client
from lightbox.tools.harness.stack import Stack, clean_environ
from lightbox.tools.harness.tables import table

TURNS = 30
JSON, DRAWN = "application/json", "image/jpeg"
COLUMNS = ("JSON, ms", "drawn, ms", "encoding, ms")


def cpu_milliseconds(pid: int) -> float:
    """Return what a server's processes and their threads have computed, in milliseconds."""
    spent = 0
    for _, process in family(pid):
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            with suppress(OSError):
                spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e6


def encoding(photo: bytes) -> float:
    """Return the milliseconds that writing a photo as JPEG takes."""
    picture = decode_rgb(photo, ImageLimits()).convert("RGB")
    began = time.process_time()
    encoded(picture, "JPEG")
    return 1000 * (time.process_time() - began)


def measure(stack: Stack, photo: bytes) -> dict[str, float]:
    """Return the median milliseconds of JSON, of a drawn answer, and of the encoding."""
    found: dict[str, list[float]] = {JSON: [], DRAWN: [], "encoding": []}
    with Client(stack.port) as client:
        for turn in range(TURNS + 2):
            for accept in (JSON, DRAWN):
                before = cpu_milliseconds(stack.process.pid)
                answer = client.send("POST", "/invocations", photo, {"Content-Type": DRAWN, "Accept": accept})
                assert answer.status == 200, answer.body
                if turn > 1:
                    found[accept].append(cpu_milliseconds(stack.process.pid) - before)
            found["encoding"].append(encoding(photo))
    return {what: statistics.median(times) for what, times in found.items()}


def main(model: str, *photos: str) -> None:
    """Print a table with a row for each photo."""
    rows: list[Sequence[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        environ = {"LIGHTBOX_MODEL_DIR": str(Path(model).absolute()), "LIGHTBOX_MODEL_SERVER": "embedded"}
        environ["LIGHTBOX_OPTIONS"] = os.environ.get("LIGHTBOX_OPTIONS", "")
        with Stack(environ, {**clean_environ(), "TMPDIR": folder}, Path(folder)) as stack:
            stack.until_ready()
            for photo in photos:
                times = measure(stack, Path(photo).read_bytes())
                beyond = times[DRAWN] - times["encoding"] - times[JSON]
                rows.append(
                    [Path(photo).name, *(f"{one:.1f}" for one in times.values()), f"{beyond / times[JSON]:+.0%}"]
                )
    print("\n".join(table(["photo", *COLUMNS, "beyond both"], rows, "lr")))


if __name__ == "__main__":
    main(*sys.argv[1:])
