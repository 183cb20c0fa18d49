"""Measures the time per picture of each offline method: ``python -m benchmark.offline [PICTURES]``

EfficientNet-Lite0 (`make models`) classifies copies of a 1024x768 JPEG by each method in turn, in rounds. The CPU time
is of the whole machine, which must be idle. A run with a fifth of the pictures gives the startup time to subtract.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmark import photos
from benchmark.servers import Stack
from lightbox.telemetry import say

ROUNDS = 3
MODEL = Path("models/efficientnet_lite0").absolute()
FILES = "from pathlib import Path; import sys; files = sorted(Path(sys.argv[1]).iterdir());"
BOUND = f"""{FILES} from benchmark import bound; from lightbox.images.preparation import Scaling
answer = bound.classifier(Path({str(MODEL)!r}), Scaling.NONE)
for file in files: answer(file.read_bytes())"""
LOAD = f"{FILES} import lightbox; print(len(list(lightbox.load({str(MODEL)!r}).predict_many(files))))"
KERAS = f"""{FILES} import numpy, tensorflow as tf
answer = tf.saved_model.load({str(MODEL / "1")!r}).signatures["serving_default"]
for file in files:
    image = tf.keras.utils.load_img(file, target_size=(224, 224), interpolation="bicubic")
    answer(tf.constant(numpy.asarray(image)[None]))"""
PREDICT = ["-m", "lightbox", "predict", "FOLDER", "--to", "FOLDER.parquet"]
WAYS = {
    "the bound": [sys.executable, "-c", BOUND, "FOLDER"],
    "lightbox.load, predict_many": [sys.executable, "-c", LOAD, "FOLDER"],
    "lightbox predict --model": [sys.executable, *PREDICT, "--model", str(MODEL)],
    "lightbox predict --ray": [".venv-ray/bin/python", *PREDICT, "--model", str(MODEL), "--ray", "auto"],
    "lightbox predict --url, 8 at a time": [
        sys.executable, *PREDICT, "--url", "URL", "--concurrency", "8",
    ],
    "Keras's load_img and a SavedModel, a loop": [sys.executable, "-c", KERAS, "FOLDER"],
}  # fmt: skip


@contextmanager
def around(folder: Path) -> Iterator[str]:
    """Run a Ray cluster of one node and an endpoint of the model; yield the endpoint's URL."""
    ray, cores = ".venv-ray/bin/ray", f"--num-cpus={os.cpu_count()}"
    run([ray, "start", "--head", cores, "--disable-usage-stats"])
    try:
        with closing(Stack("offline", MODEL, (("LIGHTBOX_ENGINE", "auto"),)).start(folder / "stack")) as endpoint:
            yield endpoint.address.url
    finally:
        run([ray, "stop"])


def run(words: list[str]) -> None:
    """Run a command with Lightbox on PYTHONPATH; raise CalledProcessError if it fails."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(name).absolute()) for name in ("container", "scripts"))}
    subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - a program named above


def busy() -> float:
    """Return the busy seconds of all cores of the machine."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def measured(way: list[str], folder: Path) -> tuple[float, float]:
    """Return the wall and CPU seconds of one method for the pictures of a folder."""
    folder.with_suffix(".parquet").unlink(missing_ok=True)
    began, cpu = time.perf_counter(), busy()
    run([word.replace("FOLDER", str(folder)) for word in way])
    return time.perf_counter() - began, busy() - cpu


def main(pictures: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name, around(Path(name)) as url:
        folders = {count: Path(name, str(count)) for count in (pictures // 5, pictures)}
        for count, folder in folders.items():
            folder.mkdir()
            for number in range(count):
                (folder / f"{number:06}.jpg").write_bytes(photos.photo())
        rows: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for number in range(ROUNDS):
            for way, command in WAYS.items():
                words = [word.replace("URL", url) for word in command]
                (less, less_cpu), (more, cpu) = (measured(words, folder) for folder in folders.values())
                rows[way].append((more - less, cpu - less_cpu))
                say.progress(f"round {number + 1} of {ROUNDS}: {way}")
    each = pictures - pictures // 5
    bound = statistics.median(cpu for _, cpu in rows["the bound"])
    print("| way | images/s | CPU ms | CPU ÷ bound |\n|---|---:|---:|---:|")
    for way, found in rows.items():
        wall, cpu = (statistics.median(figures) for figures in zip(*found, strict=True))
        print(f"| {way} | {each / wall:.0f} | {cpu / each * 1000:.2f} | {cpu / bound:.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
