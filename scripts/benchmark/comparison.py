"""Both wires of one endpoint, compared through boto3: what scripts/latency_comparison.ipynb shows."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmark import figures, photos
from benchmark.clients.base import Load, Sample
from benchmark.clients.boto import Boto3Client, Boto3Session, runtime_client
from benchmark.pages import tables
from benchmark.scenarios import common

WIRES = {"REST": "rest", "gRPC": "grpc"}
ROUND_CALLS = 10
BOXES = 8
Samples = Mapping[str, list[Sample]]


@dataclass(frozen=True)
class Endpoint:
    """Where to invoke: SageMaker's endpoint of that name, or a local one at ``url``."""

    url: str | None
    name: str | None = None
    region: str | None = None

    def session(self, body: bytes, model: str, wire: str) -> Boto3Session:
        """Return a session that sends this image to a model over a wire."""
        request = Boto3Client(body, common.IMAGE, common.attributes(model, wire), self.name)
        return Boto3Session(request, runtime_client(self.url, self.region))

    def predictions(self, body: bytes, model: str, wire: str = "grpc") -> Any:
        """Return the predictions for one image."""
        return json.loads(self.session(body, model, wire).invoke()[0])["predictions"]


@contextmanager
def local_endpoint() -> Iterator[Endpoint]:
    """Start Lightbox with mobilenet_v2 and efficientdet_d1, made first where they are missing; stop it at the end."""
    from benchmark import prepare
    from benchmark.declarations import Scale

    prepare.prepare(Scale("quick"), ["rest_or_grpc"])
    with tempfile.TemporaryDirectory() as folder:
        running = common.lightbox().start(Path(folder))
        try:
            yield Endpoint(running.address.url)
        finally:
            running.stop()


def compare(endpoint: Endpoint, model: str, calls: int, body: bytes | None = None) -> dict[str, list[Sample]]:
    """Invoke ``calls`` times over each wire, in rounds of ten in turn; return the samples by wire."""
    sessions = {name: endpoint.session(body or photos.photo(), model, wire) for name, wire in WIRES.items()}
    samples: dict[str, list[Sample]] = {name: [] for name in sessions}
    for session in sessions.values():
        session.run(Load(1))
    while len(samples["REST"]) * ROUND_CALLS < calls:
        left = calls - len(samples["REST"]) * ROUND_CALLS
        for name, session in sessions.items():
            samples[name].append(session.run(Load(min(ROUND_CALLS, left))))
    failed = [sample.first_error for wire in samples.values() for sample in wire if sample.errors]
    if failed:
        raise RuntimeError(f"{len(failed)} rounds had failed calls, the first with: {failed[0]}")
    return samples


def summaries(samples: Samples) -> list[dict[str, Any]]:
    """Return each wire's figures as the plots take them."""
    return [{"name": name, **figures.summarise(rounds)} for name, rounds in samples.items()]


def percentile_table(tasks: Mapping[str, Samples]) -> str:
    """Return the Markdown table of P95, P90 and average in milliseconds, and what gRPC saves."""
    rows = []
    for task, samples in tasks.items():
        by_wire = {summary["name"]: summary for summary in summaries(samples)}
        for label, key in (("P95", "p95"), ("P90", "p90"), ("average", "average")):
            rest, grpc = by_wire["REST"][key], by_wire["gRPC"][key]
            saved = f"{(grpc / rest - 1) * 100:+.0f} %"
            rows.append([f"{task}, {label}", tables.number(rest), tables.number(grpc), saved])
    return "\n".join(tables.table(["ms", "REST", "gRPC", "gRPC against REST"], rows))


def draw_detections(body: bytes, detections: Mapping[str, Any], least_score: float = 0.0) -> bytes:
    """Draw the boxes with the highest scores on the photograph and return it as JPEG."""
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(body)).convert("RGB")
    draw = ImageDraw.Draw(image)
    scores = np.asarray(detections["detection_scores"])
    for index in np.argsort(-scores)[:BOXES]:
        if scores[index] < least_score:
            break
        top, left, bottom, right = detections["detection_boxes"][index]
        box = (left * image.width, top * image.height, right * image.width, bottom * image.height)
        draw.rectangle(box, outline="#e45756", width=4)
        label = f"class {detections['detection_classes'][index]:.0f}: {scores[index]:.2f}"
        place = (box[0], max(0.0, box[1] - 24))
        draw.rectangle(draw.textbbox(place, label, font_size=18), fill="#e45756")
        draw.text(place, label, fill="white", font_size=18)
    return photos.encode(image, 85)


def png(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return buffer.getvalue()
