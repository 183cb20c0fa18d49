"""Sends every image of a folder to an endpoint, as fast as it goes, and writes down what the model answered to each.

scripts/predict_folder.py photos                               a local endpoint, http://localhost:8080
scripts/predict_folder.py photos --model digits --out digits.csv
scripts/predict_folder.py photos --protocol open-inference --url http://10.0.0.7:8080
scripts/predict_folder.py photos --endpoint-name my-endpoint --region eu-central-1

The same command again goes on where the last one ended: images that were answered are not sent again, failures are.
Exit code 0: every image has been answered; 1: some failed, or the endpoint went away; 2: nothing could be sent;
130: interrupted by Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from folder_prediction.concurrency import MOST, Auto, Concurrency, Fixed
from folder_prediction.journal import Journal, NoJournal, records
from folder_prediction.retries import Retrying
from folder_prediction.run import Folder, Report, look_through, predict_all
from folder_prediction.senders import (
    Boto3Sender,
    InvocationsSender,
    Misconfigured,
    OpenInferenceSender,
    Sender,
)
from folder_prediction.tables import CannotWrite, check_form, journal_path, write_table

LOCAL = "http://localhost:8080"
SHOWN_FAILURES = 5


def main(arguments: list[str] | None = None) -> int:
    """Predict as the command line says and return the exit code."""
    options = parse(arguments)
    try:
        return run(options)
    except (CannotWrite, Misconfigured, NoJournal) as problem:
        print(f"predict_folder.py: {problem}", file=sys.stderr)
        return 2


def run(options: argparse.Namespace) -> int:
    """Send the folder; raise CannotWrite, Misconfigured or NoJournal when nothing can be sent."""
    folder = look_through(options.folder)
    if not folder.images:
        raise Misconfigured(f"{options.folder}: holds no images; {folder.other_files}")
    check_form(options.out)
    with Journal(journal_path(options.out), folder.sizes, options.model or "") as journal:
        left = [path for path in folder.images if str(path) not in journal.done]
        report = Report()
        if left:
            sender = make_sender(options)
            sender.check()
            retrying = Retrying(sender, options.attempts, threading.Event(), options.model or "")
            report = predict_all(left, retrying, options.concurrency, journal)
        write_table(list(records(journal.path)), options.out)
    say(folder, len(folder.images) - len(left), report, options.out)
    if report.interrupted:
        return 130
    return 1 if report.failed or report.stopped else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folder", type=Path, help="the folder; folders in it count too, hidden files do not")
    add("--url", default=LOCAL, help=f"a local endpoint, {LOCAL} by default")
    add("--endpoint-name", help="an endpoint of SageMaker instead, with the credentials of the environment, by boto3")
    add("--region", help="its region, where the environment names none")
    add("--model", help="one of several models behind the endpoint")
    add("--protocol", choices=("http", "boto3", "open-inference"), default="http", help="http by default")
    add(
        "--concurrency",
        type=_concurrency,
        default="auto",
        help=f"images at a time, 1 to {MOST}, or auto: the default",
    )
    add("--out", type=Path, default=Path("results.jsonl"), help="results.jsonl by default; .csv and .parquet as well")
    add("--attempts", type=_positive, default=10, help="how often an image is sent at most, 10 by default")
    add("--timeout", type=float, default=60.0, help="seconds to wait for an answer, 60 by default")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        problem = "is not a folder" if options.folder.exists() else "does not exist"
        parser.error(f"{options.folder} {problem}: expected a folder of images")
    return options


def make_sender(options: argparse.Namespace) -> Sender:
    """Return the way that the command line names."""
    attributes = f"tfs-model-name={options.model}" if options.model else ""
    http = InvocationsSender(options.url, attributes, options.timeout)
    if options.endpoint_name or options.protocol == "boto3":
        from benchmark.clients.boto import runtime_client

        url = None if options.endpoint_name else options.url
        client = runtime_client(url, options.region, connections=MOST, read_timeout=options.timeout)
        return Boto3Sender(client, options.endpoint_name or "local", attributes, http if url else None)
    if options.protocol == "open-inference":
        return OpenInferenceSender(options.url, options.model, options.timeout)
    return http


def say(folder: Folder, before: int, report: Report, out: Path) -> None:
    """Print what was done, and what was not."""
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
        print(f"predict_folder.py: {len(paths)} failed: {paths[0]}{others}: {error}", file=sys.stderr)
    if report.stopped:
        print(f"predict_folder.py: stopped: {report.stopped}. The same command goes on from here.", file=sys.stderr)


def _concurrency(text: str) -> Concurrency:
    if text == "auto":
        return Auto()
    if text.isdecimal() and 1 <= int(text) <= MOST:
        return Fixed(int(text))
    raise argparse.ArgumentTypeError(f"expected auto or a number from 1 to {MOST}, got {text!r}")


def _positive(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is in progress ends first
    sys.exit(main())
