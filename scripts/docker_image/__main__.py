"""Builds the image, checks it, prints its sizes, and writes the bill of materials and the licences: ``make image``."""

from __future__ import annotations

import sys
from pathlib import Path

import requests

from docker_image import sizes, structure
from docker_image.container import BOTH_TRANSPORTS, HARDENED, PATIENCE, TRANSPORTS, Container
from docker_image.docker import REPOSITORY, Engine, ProgramFailed, argument, attempt
from docker_image.engine import NoEngine, find_engine
from docker_image.parts import write_parts
from lightbox.base.telemetry import say
from lightbox.tools.harness.server_process import ServerFailed
from sample_models import main as make_sample_models

MODELS, OUT = REPOSITORY / "build" / "sample_models", REPOSITORY / "build" / "image"


class CheckFailed(Exception):
    """An image fails a check."""


def main() -> int:
    """Build, check and report the images, and return the exit code."""
    make_sample_models([str(MODELS)])
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        with find_engine() as engine:
            for stage in structure.FILES:
                make(engine, stage, "lightbox" if stage == "lightbox" else f"lightbox:{stage}")
    except (NoEngine, ProgramFailed, ServerFailed, CheckFailed, requests.RequestException) as problem:
        print(f"image: {problem}", file=sys.stderr)
        return 1
    return 0


def make(engine: Engine, stage: str, tag: str) -> None:
    """Build one image, print its sizes, write the bill of materials and the list of licences, and check it."""
    say.progress(f"{tag}: building")
    revision = attempt("git", "-C", str(REPOSITORY), "rev-parse", "HEAD").stdout.strip() or "unknown"
    engine.build(tag, f"--target={stage}", f"--build-arg=REVISION={revision}")
    print(sizes.table(sizes.layers(engine, tag)), flush=True)
    found = write_parts(engine, tag, argument("VERSION"), OUT / tag.replace(":", "-"))
    say.progress(f"{tag}: {len(found)} parts, their licences and the bill of materials in {OUT}")
    say.progress(f"{tag}: checks with {' '.join(HARDENED)}")
    check(engine, tag, stage, MODELS)


def check(engine: Engine, tag: str, stage: str, models: Path) -> str:
    """Check an image against its stage's declarations, run it in its documented way, and return its log.

    Raises CheckFailed, ProgramFailed, ServerFailed and requests.RequestException.
    """
    problems = structure.problems(engine, tag, stage)
    size = sizes.without_the_model_server(sizes.layers(engine, tag))
    if size > (largest := sizes.LARGEST.get(stage, size)):
        problems.append(f"{size / 1e6:.0f} MB without the model server, more than {largest / 1e6:.0f}")
    with Container(engine, tag, models, options=(*HARDENED, BOTH_TRANSPORTS)) as container:
        for transport in TRANSPORTS:
            (prediction,) = container.invoke(f"tfs-model-name=digits, tfs-transport={transport}")["predictions"]
            if max(prediction) != prediction[7]:
                problems.append(f"over {transport} a seven is read as {prediction}")
        container.wait_until(lambda: container.inspect("{{.State.Health.Status}}") != "starting", PATIENCE)
        health, code = container.inspect("{{.State.Health.Status}}"), container.stop()
        problems += [f"HEALTHCHECK says {health}"] if health != "healthy" else []
        problems += [f"exit code {code} after SIGTERM"] if code else []
        if problems:
            raise CheckFailed("\n".join([*problems, container.log]))
        return container.log


if __name__ == "__main__":
    sys.exit(main())
