"""Builds the image, checks it, prints its sizes, and writes the bill of materials and the licences: ``make image``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docker_image import sizes
from docker_image.bill_of_materials import InvalidBill, bill_of_materials
from docker_image.checks import BOTH_WIRES, CHECKS, CheckFailed, Subject
from docker_image.container import HARDENED, ContainerFailed, running
from docker_image.dockerfile import REPOSITORY, argument
from docker_image.engine import Engine, NoEngine, find_engine
from docker_image.inventory import inventory, licence_counts, licence_table
from docker_image.programs import ProgramFailed, attempt
from docker_image.ways import WAYS
from lightbox.telemetry import say
from sample_models import main as make_sample_models

MODELS = REPOSITORY / "build" / "sample_models"
TAGS = {"lightbox": "lightbox", "embedded": "lightbox:embedded", "openvino": "lightbox:openvino"}
"""The image's name by the Dockerfile's stage."""


def main(arguments: list[str] | None = None) -> int:
    """Do it all and return the exit code."""
    parser = argparse.ArgumentParser(prog="docker_image", description=__doc__)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "image", help="folder of what is written")
    parser.add_argument("--only", choices=TAGS, help="the one image to build")
    options = parser.parse_args(arguments)
    make_sample_models([str(MODELS)])
    try:
        with find_engine() as engine:
            for stage in [options.only] if options.only else TAGS:
                make(engine, stage, options.out)
    except (NoEngine, ProgramFailed, ContainerFailed, CheckFailed, InvalidBill) as problem:
        print(f"image: {problem}", file=sys.stderr)
        return 1
    return 0


def make(engine: Engine, stage: str, out: Path) -> None:
    """Build and check one image and report what is in it."""
    tag = TAGS[stage]
    say.progress(f"{tag}: building")
    revision = attempt("git", "-C", str(REPOSITORY), "rev-parse", "HEAD").output.strip() or "unknown"
    engine.build(tag, f"--target={stage}", f"--build-arg=REVISION={revision}")
    report(engine, tag, out)
    check(engine, stage)


def check(engine: Engine, stage: str) -> None:
    """Run an image as it is meant to be run and say what each check saw; raise CheckFailed at the first that fails."""
    tag = TAGS[stage]
    say.progress(f"{tag}: checks with {' '.join(HARDENED)}")
    options = (*HARDENED, BOTH_WIRES, *engine.run_options)
    with running(engine.docker, tag, MODELS, "serve", options=options) as container:
        subject = Subject(engine.docker, tag, container, engine.real_model_server)
        for step in CHECKS[stage]:
            print(f"   {step.__name__.replace('_', ' ')}: {step(subject)}", flush=True)
    for way in WAYS[stage]:
        print(f"   {way.__name__.replace('_', ' ')}: {way(engine, tag, MODELS)}", flush=True)


def report(engine: Engine, tag: str, out: Path) -> None:
    """Print the sizes and the licences; write the bill of materials and the list of licences."""
    say.progress(f"{tag}: sizes")
    table = sizes.table(engine.docker, tag)
    print(table, flush=True)
    if not engine.real_model_server:
        print("   The base image and the model server are stand-ins: the published ones differ in size.", flush=True)
    parts = inventory(engine.docker, tag)
    name = tag.replace(":", "-")
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}-sizes.md").write_text(f"{table}\n")
    bill, licences = out / f"{name}.cdx.json", out / f"{name}-licences.md"
    bill.write_text(bill_of_materials(tag, argument("VERSION"), parts))
    licences.write_text(licence_table(parts))
    say.progress(f"{tag}: {len(parts)} parts in {bill}, their licences in {licences}")
    counts = licence_counts([part for part in parts if part.kind != "deb"])
    print("   but for Debian's: " + ", ".join(f"{licence} {count}" for licence, count in counts), flush=True)


if __name__ == "__main__":
    sys.exit(main())
