"""Measures the time per image of each offline method: ``python -m benchmark.offline [IMAGES [WORD]]``

EfficientNet-Lite0 (`make models`) classifies copies of a 1024x768 JPEG by each method in turn, in rounds. The CPU time
is of the whole machine, which must be idle. A run with a fifth of the images gives the startup time to subtract.
"""

from __future__ import annotations

import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmark import photos
from benchmark.servers import REPOSITORY, Stack
from lightbox.base.telemetry import say
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import ServerProcess

ROUNDS = 3
MODEL = REPOSITORY / "models" / "efficientnet_lite0"
RAY, SECRET = REPOSITORY / ".venv-ray" / "bin", secrets.token_hex(32)
FILES = "from pathlib import Path; import os, sys; files = sorted(Path(sys.argv[1]).iterdir());"
BOUND = f"""{FILES} from benchmark import bound; from lightbox.images.preparation import Scaling
last, number, child = int(sys.argv[3]) - 1, 0, 0
while number < last and not (child := os.fork()): number += 1
answer = bound.classifier(Path(sys.argv[2]), Scaling.NONE)
for file in files[number :: last + 1]: answer(file.read_bytes())
if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"""
LOAD = f"""{FILES} import lightbox
model = lightbox.load(sys.argv[2], threads=int(sys.argv[3]))
print(len(list(model.predict_many(files))))"""
KERAS = f"""{FILES} import numpy, tensorflow as tf
answer = tf.saved_model.load(sys.argv[2] + "/1").signatures["serving_default"]
for file in files:
    image = tf.keras.utils.load_img(file, target_size=(224, 224), interpolation="bicubic")
    answer(tf.constant(numpy.asarray(image)[None]))"""
PREDICT = ["-m", "lightbox", "predict", "FOLDER", "--to", "FOLDER.parquet"]
ONE_CORE, ALL_CORES = "the bound, one core", "the bound, all cores"


def ways(model: Path, cluster: str, url: str) -> dict[str, list[str]]:
    """Return the command of each method; FOLDER stands for the images."""
    here, by_model, cores = sys.executable, ["--model", str(model)], str(os.cpu_count())
    return {
        ONE_CORE: [here, "-c", BOUND, "FOLDER", str(model), "1"],
        ALL_CORES: [here, "-c", BOUND, "FOLDER", str(model), cores],
        "lightbox.load, predict_many, one thread": [here, "-c", LOAD, "FOLDER", str(model), "1"],
        "lightbox.load, predict_many": [here, "-c", LOAD, "FOLDER", str(model), cores],
        "lightbox predict --model": [here, *PREDICT, *by_model],
        "lightbox predict --ray": [str(RAY / "python"), *PREDICT, *by_model, "--ray", cluster],
        "lightbox predict --url, 8 at a time": [here, *PREDICT, "--url", url, "--concurrency", "8"],
        "Keras's load_img and a SavedModel, a loop": [here, "-c", KERAS, "FOLDER", str(model)],
    }


@contextmanager
def around(folder: Path, model: Path) -> Iterator[tuple[str, str]]:
    """Run a Ray cluster of one node and an endpoint of the model; yield their addresses."""
    port = free_ports(2)
    start = [f"{RAY}/ray", "start", "--head", "--block", f"--num-cpus={os.cpu_count()}", "--disable-usage-stats"]
    start += ["--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={port + 1}"]
    start += ["--min-worker-port=0", "--max-worker-port=0"]  # any free ports, not a range that may hold the others
    start += ["--include-dashboard=false", f"--temp-dir={folder}/ray"]
    stack = Stack("offline", model, (("LIGHTBOX_ENGINE", "auto"),))
    with (
        ServerProcess(start, environ(), folder / "cluster") as cluster,
        closing(stack.start(folder / "stack")) as endpoint,
    ):
        cluster.wait_until(lambda: "Ray runtime started" in cluster.log)
        yield f"127.0.0.1:{port}", endpoint.address.url


def environ() -> dict[str, str]:
    """Return the environment with Lightbox on PYTHONPATH, and a cluster's secret."""
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("container", "scripts"))
    return os.environ | {"PYTHONPATH": paths, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": SECRET}


def busy() -> float:
    """Return the busy seconds of all cores of the machine."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def measured(way: list[str], folder: Path) -> tuple[float, float]:
    """Return the wall and CPU seconds of one method for a folder; raise CalledProcessError if it fails."""
    folder.with_suffix(".parquet").unlink(missing_ok=True)
    began, cpu = time.perf_counter(), busy()
    words = [word.replace("FOLDER", str(folder)) for word in way]
    subprocess.run(words, env=environ(), check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - a program named above
    return time.perf_counter() - began, busy() - cpu


def main(images: int, model: Path, named: str = "") -> None:
    """Print the table: of all methods, or of the bound and those whose names contain a word."""
    with tempfile.TemporaryDirectory() as name, around(Path(name), model) as addresses:
        folders = {count: Path(name, str(count)) for count in (images // 5, images)}
        for count, folder in folders.items():
            folder.mkdir()
            for number in range(count):
                (folder / f"{number:06}.jpg").write_bytes(photos.photo())
        found = ways(model, *addresses)
        commands = {way: command for way, command in found.items() if named in way or way in (ONE_CORE, ALL_CORES)}
        rows: dict[str, list[tuple[float, float]]] = {way: [] for way in commands}
        for number in range(ROUNDS):
            for way, command in commands.items():
                (less, less_cpu), (more, cpu) = (measured(command, folder) for folder in folders.values())
                rows[way].append((more - less, cpu - less_cpu))
                say.progress(f"round {number + 1} of {ROUNDS}: {way}")
    each = images - images // 5
    medians = {way: [statistics.median(figures) for figures in zip(*found, strict=True)] for way, found in rows.items()}
    heads = ("way", "images/s", "CPU ms", "÷ bound, one core", "÷ bound, all cores")
    print(f"| {' | '.join(heads)} |\n|---|---:|---:|---:|---:|")
    for way, (wall, cpu) in medians.items():
        ratios = [f"{cpu / medians[bound][1]:.2f}" for bound in (ONE_CORE, ALL_CORES)]
        print(f"| {way} | {each / wall:.0f} | {cpu / each * 1000:.2f} | {' | '.join(ratios)} |")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["1000"])[0]), MODEL, *sys.argv[2:3])
