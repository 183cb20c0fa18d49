"""Compares the transports of one endpoint through boto3, for latency_comparison.ipynb."""

from __future__ import annotations

import io
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from botocore.exceptions import ClientError
from matplotlib.figure import Figure

from benchmark import models
from benchmark.pages import tables
from benchmark.scenarios import common
from benchmark.servers import Stack, model_server_kind
from lightbox.tools.client.boto import runtime_client
from lightbox.tools.client.invoke import read_server_timing
from lightbox.tools.harness.percentiles import percentile

TRANSPORTS = {"REST": "rest", "gRPC": "grpc"}
ROUND_CALLS = 10
OUTSIDE = "client, network, nginx"
"""The time of a caller beside the stages that the server reports; drawn last."""


@dataclass(frozen=True)
class Call:
    """A response, the milliseconds that the caller waited for it, and those of each stage by ``Server-Timing``."""

    body: bytes
    milliseconds: float
    stages: Mapping[str, float]


Calls = Mapping[str, Sequence[Call]]
"""By the transport's display name."""


@dataclass(frozen=True)
class Offer:
    """The transports that an endpoint offers for a model, by display name, and the reasons for missing ones."""

    model: str
    transports: Mapping[str, str]
    missing: Sequence[str]

    @property
    def left_out(self) -> str:
        """A sentence that lists the missing transports and reasons; empty if none is missing."""
        what = f"one transport of {self.model} is" if self.transports else f"{self.model} is"
        return f"*{what} left out: {'; '.join(self.missing)}*" if self.missing else ""


@dataclass
class Endpoint:
    """The endpoint to invoke: a SageMaker endpoint by name, or a local one at ``url``."""

    url: str | None
    name: str | None = None
    region: str | None = None

    @cached_property
    def _client(self) -> Any:
        return runtime_client(None if self.name else self.url, self.region)

    def invoke(self, body: bytes, model: str, transport: str) -> Call:
        """Send an image to a model over a transport; raise botocore's ClientError."""
        began = time.perf_counter()
        response = self._client.invoke_endpoint(
            EndpointName=self.name or "local",
            Body=body,
            ContentType=common.IMAGE,
            CustomAttributes=common.attributes(model, transport),
        )
        found = response["Body"].read()
        seconds = time.perf_counter() - began
        headers = response["ResponseMetadata"]["HTTPHeaders"]
        return Call(found, 1000 * seconds, read_server_timing(headers.get("server-timing", "")))

    def offer(self, body: bytes, model: str) -> Offer:
        """Return the transports on which the endpoint serves a model, by one call over each."""
        transports, missing = {}, []
        for name, transport in TRANSPORTS.items():
            try:
                self.invoke(body, model, transport)
                transports[name] = transport
            except ClientError as error:
                missing.append(error.response["Error"]["Message"])
        return Offer(model, transports, tuple(dict.fromkeys(missing)))

    def predictions(self, body: bytes, model: str, transport: str) -> Any:
        """Return the predictions for one image."""
        return json.loads(self.invoke(body, model, transport).body)["predictions"]


def model_server() -> str:
    """Return a description of the model server behind ``local_endpoint``."""
    return model_server_kind().replace("embedded", "the embedded model server")


@contextmanager
def local_endpoint() -> Iterator[Endpoint]:
    """Start Lightbox with mobilenet_v2 and efficientdet_d1, exported first if missing; stop it at the end."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:  # TensorFlow stays out of this process
        stack = Stack("Lightbox", apart.submit(models.classifier_and_detector).result(), (common.DEFAULT_MODEL,))
    with tempfile.TemporaryDirectory() as folder, closing(stack.start(Path(folder))) as running:
        yield Endpoint(running.address.url)


def compare(endpoint: Endpoint, offer: Offer, calls: int, body: bytes) -> Calls:
    """Invoke ``calls`` times over each transport, in alternating rounds of ten; raise botocore's ClientError."""
    found: dict[str, list[Call]] = {name: [] for name in offer.transports}
    for begun in range(0, calls, ROUND_CALLS):
        for name, transport in offer.transports.items():
            for _ in range(min(ROUND_CALLS, calls - begun)):
                found[name].append(endpoint.invoke(body, offer.model, transport))
    return found


def percentile_table(tasks: Mapping[str, Calls]) -> str:
    """Return the Markdown table of P95, P90 and average in milliseconds, and the savings of the second transport."""
    rows = []
    for task, calls in tasks.items():
        waited = [[call.milliseconds for call in of_transport] for of_transport in calls.values()]
        for label, figure in (
            ("P95", lambda times: percentile(times, 95)),
            ("P90", lambda times: percentile(times, 90)),
            ("average", fmean),
        ):
            times = [figure(of_transport) for of_transport in waited]
            saved = f"{(times[1] / times[0] - 1) * 100:+.0f} %" if len(times) == 2 else tables.NONE
            rows.append([f"{task}, {label}", *map(tables.number, times), saved])
    transports = list(dict.fromkeys(name for calls in tasks.values() for name in calls))
    return "\n".join(tables.table(["ms", *transports, " against ".join(reversed(transports))], rows))


def stage_bars(calls: Calls, title: str, note: str) -> bytes:
    """Draw the median stages of each transport as PNG; the rest of the caller's median is grey."""
    figure = Figure(figsize=(9, 1.6 + 0.4 * len(calls)), layout="constrained")
    axes, names = figure.subplots(), list(calls)
    waited = [median(call.milliseconds for call in calls[name]) for name in names]
    stages = list(dict.fromkeys(stage for name in names for call in calls[name] for stage in call.stages))
    left = [0.0] * len(names)
    for stage in [*(stage for stage in stages if stage != "total"), OUTSIDE]:
        if stage == OUTSIDE:  # the medians of the stages can add up to more than that of the call
            widths = [max(0.0, end - start) for end, start in zip(waited, left, strict=True)]
        else:
            widths = [median(call.stages.get(stage, 0.0) for call in calls[name]) for name in names]
        axes.barh(names, widths, left=left, label=stage, color="lightgrey" if stage == OUTSIDE else None)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for position, (end, milliseconds) in enumerate(zip(left, waited, strict=True)):
        axes.text(end, position, f" {tables.number(milliseconds, 'ms')}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(left))
    axes.set_xlabel("milliseconds")
    figure.legend(fontsize=7, ncols=5, loc="outside lower center", frameon=False)
    axes.set_title(f"{title}: where the time goes\n{note}", fontsize=10, loc="left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return buffer.getvalue()
