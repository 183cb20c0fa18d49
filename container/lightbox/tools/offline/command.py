"""``lightbox predict``: a row for each image of a folder, a bucket, shards, a table or a list."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import click

import lightbox
from lightbox.base.control_characters import escape
from lightbox.base.errors import StartError
from lightbox.tools.client.concurrency import MOST, Auto, Concurrency, Fixed
from lightbox.tools.client.invoke import LOCAL
from lightbox.tools.client.retries import Retrying
from lightbox.tools.client.senders import Boto3Sender, InvocationsSender, Misconfigured, OpenInferenceSender, Sender
from lightbox.tools.offline.coco_results import CocoResults
from lightbox.tools.offline.drawn_photos import DrawnPhotos
from lightbox.tools.offline.endpoint import Endpoint, EndpointGone
from lightbox.tools.offline.loading import image_limits, load, most_bytes
from lightbox.tools.offline.rows import Predictor
from lightbox.tools.offline.run import Run, handled, say_stopped
from lightbox.tools.offline.sources import Source, SourceError
from lightbox.tools.offline.storage import S3_SCHEME, AwsError
from lightbox.tools.offline.targets import PART_ROWS, Target, TargetError

_ALONE = ("labels", "scaling", "engine")
MOST_SENT = 100 << 20
"""Bytes of an image that are sent to an endpoint, which has its own limit, whatever the one of this machine is."""


class NothingDone(click.ClickException):
    """The run cannot begin; the message gives the reason."""

    exit_code = 2


class ConcurrencyType(click.ParamType[Concurrency]):
    """``auto``, or how many images are sent at a time."""

    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Concurrency:
        """Return the concurrency that a text names."""
        if isinstance(value, Auto | Fixed):
            return value
        if value == "auto":
            return Auto()
        if not (value.isdecimal() and 1 <= int(value) <= MOST):
            self.fail(f"expected auto or a number from 1 to {MOST}, got {value!r}", param, ctx)
        return Fixed(int(value))


@click.command("predict", epilog="Example: lightbox predict photos --model models/cats --to answers.jsonl")
@click.argument("source")
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    help="A .jsonl, .csv or .parquet file, also in S3; with a trailing slash a folder of parts.",
)
@click.option("--model", help="Folder or file of the model; with an endpoint, the name of one of its models.")
@click.option("--options", metavar="JSON", help="Options of the model, as in lightbox.json.")
@click.option("--labels", metavar="FILE", help="Option `labels` alone: a file with class names, one per line.")
@click.option("--scaling", metavar="NAME", help="Option `scaling` alone.")
@click.option("--engine", metavar="NAME", help="Option `engine` alone.")
@click.option("--draw", metavar="FOLDER", help="Write each photo with its classes or objects there, as JPEG.")
@click.option("--coco", metavar="FILE", help="Write the objects there, too, as COCO's results.")
@click.option(
    "--annotations", metavar="FILE", help="With --coco: COCO's annotations, for its ids of images and labels."
)
@click.option("--column", help="Parquet column of the images, such as image.bytes.")
@click.option("--outside", is_flag=True, help="Also read what a list or a link names outside SOURCE.")
@click.option(
    "--part-rows", type=click.IntRange(1), metavar="N", default=PART_ROWS, show_default=True, help="Rows per part."
)
@click.option("--again", is_flag=True, help="Repeat images that have failed.")
@click.option("--ray", metavar="auto|ADDRESS", help="Predict on a Ray cluster, with the model of this machine.")
@click.option("--url", help=f"Predict with this endpoint, such as {LOCAL}, instead of in this process.")
@click.option("--endpoint-name", help="Predict with this SageMaker endpoint, with the credentials of the environment.")
@click.option("--region", help="AWS region; by default that of the environment.")
@click.option(
    "--protocol",
    type=click.Choice(["http", "boto3", "open-inference"]),
    default="http",
    show_default=True,
    help="Protocol of the endpoint.",
)
@click.option(
    "--concurrency",
    type=ConcurrencyType(),
    metavar="auto|N",
    default="auto",
    show_default=True,
    help=f"Number of concurrent requests, up to {MOST}.",
)
@click.option(
    "--attempts", type=click.IntRange(1), metavar="N", default=10, show_default=True, help="Attempts per request."
)
@click.option(
    "--timeout", type=float, metavar="SECONDS", default=60.0, show_default=True, help="Time limit of a request."
)
def command(source: str, to: str, column: str | None, outside: bool, part_rows: int, again: bool, **by: Any) -> int:
    """Predict the images of SOURCE, one row for each.

    SOURCE is a folder or s3://bucket/prefix with images, .tar shards and .parquet tables; one of these files; or a
    .jsonl or .manifest file with "source-ref" or "path" in each line. The same command continues an interrupted run.

    The exit code is 0 if nothing failed in this run, 1 if something did or it stopped, 2 if nothing could be
    answered or written, 130 after Ctrl-C or SIGTERM, which let images in progress finish.
    """
    stopping = threading.Event()
    try:
        more = make_more(by["ray"], by.pop("draw"), by.pop("coco"), by.pop("annotations"))
        with (
            handled(signal.default_int_handler),
            Target(to, answerer := make_answerer(stopping, **by), part_rows, again) as target,
        ):
            place = source.rstrip("/") if source.startswith(S3_SCHEME) else os.path.realpath(source).rstrip("/")
            most = max(most_bytes(), MOST_SENT if isinstance(answerer, Endpoint) else 0)
            found = Source(source, column, lambda name: target.is_part(f"{place}/{name}"), most, outside)
            run = Run(found, target, answerer, stopping, *more)
            with handled(run.stop):
                return run.run()
    except KeyboardInterrupt:
        say_stopped("interrupted")
        return 130
    except (TargetError, SourceError, EndpointGone, Misconfigured, AwsError) as problem:
        raise NothingDone(escape(str(problem))) from None
    except StartError as problem:  # of several lines
        raise NothingDone(str(problem)) from None


def make_more(
    ray: str | None, draw: str | None, coco: str | None, annotations: str | None
) -> tuple[DrawnPhotos | None, CocoResults | None]:
    """Return what writes photos and COCO's results beside the rows. Raises TargetError and Misconfigured."""
    if draw and ray:
        raise Misconfigured("expected --draw or --ray, got both: the nodes of a cluster read the photos themselves")
    if annotations and not coco:
        raise Misconfigured("--annotations: works only with --coco")
    results = CocoResults(coco, annotations) if coco else None
    return DrawnPhotos(draw, image_limits()) if draw else None, results


def make_answerer(
    stopping: threading.Event,
    model: str | None,
    options: str | None,
    url: str | None,
    endpoint_name: str | None,
    concurrency: Concurrency,
    attempts: int,
    **more: Any,
) -> Predictor:
    """Return the model, endpoint or cluster that the command line names. Raises StartError and Misconfigured."""
    address, alone = more.pop("ray"), {key: more.pop(key) for key in _ALONE}
    if address and (url or endpoint_name):
        raise Misconfigured("expected --ray, or --url or --endpoint-name; got both")
    if url or endpoint_name:
        sender = make_sender(model, url or LOCAL, endpoint_name, **more)
        sender.check()
        return Endpoint(model, Retrying(sender, attempts, stopping), concurrency)
    if model is None:
        raise Misconfigured(
            "expected --model with a model's folder, or --url or --endpoint-name of an endpoint; got none of them"
        )
    try:
        chosen = json.loads(options or "{}")
    except ValueError as error:
        raise Misconfigured(f"--options: expected a JSON object: {error}") from error
    if not isinstance(chosen, dict):
        raise Misconfigured(f"--options: expected a JSON object, got {options}")
    if alone["labels"] and Path(alone["labels"]).exists():  # else a name in the model's code/
        alone["labels"] = str(Path(alone["labels"]).absolute())
    chosen |= {key: value for key, value in alone.items() if value is not None}
    if address:
        cluster: Predictor = lightbox.ray.Cluster(address, model, chosen)
        return cluster
    try:
        return load(model, **chosen)
    except StartError as problem:
        raise StartError("\n".join(re.sub("^path:", "--model:", line) for line in str(problem).splitlines())) from None


def make_sender(
    model: str | None, url: str, endpoint_name: str | None, region: str | None, protocol: str, timeout: float
) -> Sender:
    """Return the sender for the endpoint that the command line names."""
    attributes = f"tfs-model-name={model}" if model else ""
    http = InvocationsSender(url, attributes, timeout)
    if endpoint_name or protocol == "boto3":
        from lightbox.tools.client.boto import bounded, runtime_client

        client = runtime_client(None if endpoint_name else url, region, connections=MOST, read_timeout=timeout)
        if endpoint_name:
            return Boto3Sender(client, endpoint_name, attributes)
        return Boto3Sender(bounded(client, timeout), "local", attributes, http)
    if protocol == "open-inference":
        return OpenInferenceSender(url, model, timeout)
    return http
