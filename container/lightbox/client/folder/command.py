"""``lightbox predict``: a folder of images, sent to an endpoint as fast as possible."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from lightbox.client.folder.concurrency import MOST, Auto, Concurrency, Fixed
from lightbox.client.folder.journal import Journal, JournalError, records
from lightbox.client.folder.retries import Retrying
from lightbox.client.folder.run import Folder, Report, find_images, predict_all
from lightbox.client.folder.senders import (
    Boto3Sender,
    InvocationsSender,
    Misconfigured,
    OpenInferenceSender,
    Sender,
)
from lightbox.client.folder.tables import TableError, check_form, journal_path, write_table
from lightbox.client.invoke import LOCAL

SHOWN_FAILURES = 5


class NothingSent(click.ClickException):
    """Nothing can be sent; the message says why."""

    exit_code = 2


class ConcurrencyType(click.ParamType[Concurrency]):
    """``auto``, or the number of images in flight."""

    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Concurrency:
        """Return the concurrency in a text."""
        if isinstance(value, Auto | Fixed):
            return value
        if value == "auto":
            return Auto()
        if not (value.isdecimal() and 1 <= int(value) <= MOST):
            self.fail(f"expected auto or a number from 1 to {MOST}, got {value!r}", param, ctx)
        return Fixed(int(value))


@click.command("predict", epilog="Example: lightbox predict photos --model digits --out digits.csv")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--url", default=LOCAL, show_default=True, help="A local endpoint.")
@click.option("--endpoint-name", help="A SageMaker endpoint instead, with the environment's credentials.")
@click.option("--region", help="Its region, if not in the environment.")
@click.option("--model", help="One of several models behind the endpoint.")
@click.option("--protocol", type=click.Choice(["http", "boto3", "open-inference"]), default="http", show_default=True)
@click.option(
    "--concurrency", type=ConcurrencyType(), default="auto", show_default=True, help=f"Images at a time, 1 to {MOST}."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results.jsonl"),
    show_default=True,
    help="The file of results; .csv and .parquet as well.",
)
@click.option("--attempts", type=click.IntRange(1), default=10, show_default=True, help="How often an image is sent.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait for an answer.")
def command(folder: Path, out: Path, model: str | None, concurrency: Concurrency, attempts: int, **to: Any) -> int:
    """Send every image of a folder, write the answers.

    The images are sent to an endpoint as fast as possible.

    Subfolders are included, hidden files are not. The same command continues where the last one ended: images that were
    answered are not sent again, failures are. Exit code 0: every image has been answered; 1: some failed, or the
    endpoint went away; 2: nothing could be sent; 130: interrupted by Ctrl-C or SIGTERM.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: images in flight finish first
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found = find_images(folder)
        if not found.images:
            raise Misconfigured(f"{folder}: holds no images; {found.other_files}")
        check_form(out)
        with Journal(journal_path(out), found.sizes, model or "") as journal:
            left = [path for path in found.images if str(path) not in journal.done]
            report = Report()
            if left:
                sender = make_sender(model, **to)
                sender.check()
                retrying = Retrying(sender, attempts, threading.Event(), model or "")
                report = predict_all(left, retrying, concurrency, journal)
            write_table(list(records(journal.path)), out)
    except (TableError, Misconfigured, JournalError) as problem:
        raise NothingSent(str(problem)) from None
    print_summary(found, len(found.images) - len(left), report, out)
    if report.interrupted:
        return 130
    return 1 if report.failed or report.stopped else 0


def make_sender(
    model: str | None, url: str, endpoint_name: str | None, region: str | None, protocol: str, timeout: float
) -> Sender:
    """Return the sender for the command line."""
    attributes = f"tfs-model-name={model}" if model else ""
    http = InvocationsSender(url, attributes, timeout)
    if endpoint_name or protocol == "boto3":
        from lightbox.client.boto import runtime_client

        client = runtime_client(None if endpoint_name else url, region, connections=MOST, read_timeout=timeout)
        return Boto3Sender(client, endpoint_name or "local", attributes, None if endpoint_name else http)
    if protocol == "open-inference":
        return OpenInferenceSender(url, model, timeout)
    return http


def print_summary(folder: Folder, before: int, report: Report, out: Path) -> None:
    """Print the result of a run."""
    already = f"; {before} had been answered before" if before else ""
    others = f"; {folder.other_files} skipped" if folder.others else ""
    rate = report.answered / report.seconds if report.seconds else 0.0
    speed = f" in {report.seconds:.1f} s, {rate:.0f}/s, {report.concurrency} at a time" if report.seconds else ""
    print(
        f"{len(folder.images)} images: {report.answered} answered{speed}; "
        f"{report.failed} failed{already}{others}. Results: {out}"
    )
    for error, paths in sorted(report.failures.items(), key=lambda item: -len(item[1]))[:SHOWN_FAILURES]:
        others = " and others" if len(paths) > 1 else ""
        print(f"lightbox predict: {len(paths)} failed: {paths[0]}{others}: {error}", file=sys.stderr)
    if report.stopped:
        print(f"lightbox predict: stopped: {report.stopped}. Run the same command to continue.", file=sys.stderr)
