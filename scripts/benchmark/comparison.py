"""Compares the wires of one endpoint through boto3, for scripts/latency_comparison.ipynb."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from matplotlib.figure import Figure

from benchmark import figures
from benchmark.clients import Load, Sample, run
from benchmark.clients.boto import Boto3Client
from benchmark.pages import tables
from benchmark.scenarios import common
from benchmark.servers import Address, model_server_kind

WIRES = {"REST": "rest", "gRPC": "grpc"}
ROUND_CALLS = 10
Samples = Mapping[str, list[Sample]]
NOWHERE = Address(0)
"""The endpoint's clients know themselves where it is."""


@dataclass(frozen=True)
class Offer:
    """The transports that an endpoint offers for a model, by display name, and the reasons for missing ones."""

    model: str
    wires: Mapping[str, str]
    missing: Sequence[str]

    @property
    def left_out(self) -> str:
        """A sentence that lists the missing transports and reasons; empty if none is missing."""
        what = f"one wire of {self.model} is" if self.wires else f"{self.model} is"
        return f"*{what} left out: {'; '.join(self.missing)}*" if self.missing else ""


@dataclass(frozen=True)
class Endpoint:
    """The endpoint to invoke: a SageMaker endpoint by name, or a local one at ``url``."""

    url: str | None
    name: str | None = None
    region: str | None = None

    def client(self, body: bytes, model: str, wire: str) -> Boto3Client:
        """Return a client that sends this image to a model over a wire."""
        return Boto3Client(body, common.IMAGE, common.attributes(model, wire), self.url, self.name, self.region)

    def offer(self, body: bytes, model: str) -> Offer:
        """Return the wires on which the endpoint serves a model, by one call over each."""
        wires, missing = {}, []
        for name, wire in WIRES.items():
            try:
                self.client(body, model, wire).invoke()
                wires[name] = wire
            except ClientError as error:
                missing.append(error.response["Error"]["Message"])
        return Offer(model, wires, tuple(dict.fromkeys(missing)))

    def predictions(self, body: bytes, model: str, wire: str) -> Any:
        """Return the predictions for one image."""
        return json.loads(self.client(body, model, wire).invoke())["predictions"]


def model_server() -> str:
    """Return a description of the model server behind ``local_endpoint``."""
    return model_server_kind().replace("embedded", "the embedded model server")


@contextmanager
def local_endpoint() -> Iterator[Endpoint]:
    """Start Lightbox with mobilenet_v2 and efficientdet_d1, exported first if missing; stop it at the end."""
    from benchmark import prepare
    from benchmark.declarations import Scale

    prepare.prepare(Scale("quick"), ["rest_or_grpc"])
    with tempfile.TemporaryDirectory() as folder, closing(common.lightbox().start(Path(folder))) as running:
        yield Endpoint(running.address.url)


def compare(endpoint: Endpoint, offer: Offer, calls: int, body: bytes) -> dict[str, list[Sample]]:
    """Invoke ``calls`` times over each offered wire, in alternating rounds of ten; return the samples by wire."""
    clients = {name: endpoint.client(body, offer.model, wire) for name, wire in offer.wires.items()}
    samples: dict[str, list[Sample]] = {name: [] for name in clients}
    with ThreadPoolExecutor(1) as thread:  # the notebook's thread already runs an event loop
        for begun in range(0, calls, ROUND_CALLS):
            for name, client in clients.items():
                load = Load(min(ROUND_CALLS, calls - begun))
                samples[name].append(thread.submit(run, client, NOWHERE, load).result())
    failed = [sample.first_error for wire in samples.values() for sample in wire if sample.errors]
    if failed:
        raise RuntimeError(f"{len(failed)} rounds had failed calls, the first with: {failed[0]}")
    return samples


def summaries(samples: Samples) -> list[dict[str, Any]]:
    """Return the figures of each wire in the form that the plots take."""
    return [{"name": name, **figures.summarise(rounds, {})} for name, rounds in samples.items()]


def percentile_table(tasks: Mapping[str, Samples]) -> str:
    """Return the Markdown table of P95, P90 and average in milliseconds, and the savings of the second wire."""
    rows = []
    for task, samples in tasks.items():
        for label, key in (("P95", "p95"), ("P90", "p90"), ("average", "average")):
            times = [summary[key] for summary in summaries(samples)]
            saved = f"{(times[1] / times[0] - 1) * 100:+.0f} %" if len(times) == 2 else tables.NONE
            rows.append([f"{task}, {label}", *map(tables.number, times), saved])
    wires = list(dict.fromkeys(name for samples in tasks.values() for name in samples))
    return "\n".join(tables.table(["ms", *wires, " against ".join(reversed(wires))], rows))


def png(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return buffer.getvalue()
