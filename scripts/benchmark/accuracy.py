"""Measures the classification accuracy of each engine and transport: ``python -m benchmark.accuracy``.

Prints a table of top-1, top-5 and the largest difference in probability from TensorFlow over gRPC. The images
come from Python packages, labelled with the ImageNet classes that they show.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmark import machine, models, photos, tables
from benchmark.scenarios import common
from benchmark.scenarios.common import EQUAL_RESPONSES, INT8, OTHER_RESPONSES
from benchmark.servers import Running, Stack
from lightbox.tools.harness.http_client import Client

MODEL = "efficientnet_lite0"
SETTINGS = EQUAL_RESPONSES | OTHER_RESPONSES
TRANSPORTS = {"Lightbox, engine tensorflow": ("grpc", "rest", "local")}
"""Of the others gRPC: a transport carries the tensors of all engines."""
HOUSE_CATS = (281, 282, 285)
"""Tabby, tiger cat and Egyptian cat, which no single image distinguishes."""
SIDE = 1024
"""Pixels of an image's shorter side when it is sent: four times what the model takes, as fast decoding wants it."""


@dataclass(frozen=True)
class LabelledImage:
    """A file of an installed package, and its classes: any of them counts as correct."""

    package: str
    file: str
    classes: tuple[int, ...]

    def jpeg(self) -> bytes:
        """Return the image as sent to the server."""
        with Image.open(str(distribution(self.package).locate_file(self.file))) as image:
            size = [side * SIDE // min(image.size) for side in image.size]
            return photos.encode(image.convert("RGB").resize((size[0], size[1]), Image.Resampling.LANCZOS), 90)


def labelled_images() -> list[LabelledImage]:
    """Return twenty images of ImageNet and three others with an unambiguous class."""
    labelled = sorted(str(file) for file in distribution("foolbox").files or () if file.match("data/imagenet_*.jpg"))
    return [
        *(LabelledImage("foolbox", file, (int(Path(file).stem.rpartition("_")[2]),)) for file in labelled),
        LabelledImage("matplotlib", "matplotlib/mpl-data/sample_data/grace_hopper.jpg", (652,)),
        LabelledImage("scikit-image", "skimage/data/coffee.png", (967,)),
        LabelledImage("scikit-image", "skimage/data/chelsea.png", HOUSE_CATS),
    ]


@dataclass(frozen=True)
class Row:
    """The predictions of one engine over one transport: ``probabilities`` [images, 1000]."""

    name: str
    transport: str
    shown: Sequence[LabelledImage]
    probabilities: npt.NDArray[np.float32]

    def top(self, count: int) -> int:
        """Return how many images have a correct class among the top ``count``."""
        pairs = zip(self.shown, np.argsort(-self.probabilities, axis=1)[:, :count], strict=True)
        return sum(not set(image.classes).isdisjoint(best.tolist()) for image, best in pairs)

    def difference(self, other: Row) -> float:
        """Return the largest difference of a probability between two rows."""
        return float(np.abs(self.probabilities - other.probabilities).max())


def measure(names: Sequence[str] = tuple(SETTINGS)) -> Iterator[Row]:
    """Yield a row for each of these engines and transports, in this order. Makes models; raises as ``quantized``."""
    shown = labelled_images()
    bodies = [image.jpeg() for image in shown]
    for name in names:
        folder = models.quantized(MODEL) if name == INT8 else models.alone(MODEL)
        server = Stack(name, folder, tuple(SETTINGS[name].items()))
        with tempfile.TemporaryDirectory() as place, closing(server.start(Path(place) / "run")) as stack:
            for transport in transports(name):
                yield Row(name, transport, shown, np.concatenate([ask(stack, transport, body) for body in bodies]))


def transports(name: str) -> Sequence[str]:
    """Return the transports of a row of ``SETTINGS``."""
    return TRANSPORTS.get(name, ("grpc",))


def ask(stack: Running, transport: str, body: bytes) -> npt.NDArray[np.float32]:
    """Return the probabilities of an image's classes, [1, 1000]."""
    headers = {
        "Content-Type": common.IMAGE,
        "Accept": "application/x-npy",
        common.ATTRIBUTES: common.attributes(MODEL, transport),
    }
    with Client(stack.address.port) as client:
        response = client.send("POST", "/invocations", body, headers)
    assert response.status == 200, response.body
    found: npt.NDArray[np.float32] = np.load(io.BytesIO(response.body))
    return found


def table(rows: Sequence[Row]) -> list[str]:
    """Return a table with a line for each engine, with the worst of its transports."""
    first, count, cells = rows[0], len(rows[0].shown), []
    for name in dict.fromkeys(row.name for row in rows):
        of_engine = [row for row in rows if row.name == name]
        tops = [f"{min(row.top(best) for row in of_engine)} of {count}" for best in (1, 5)]
        difference = max(row.difference(first) for row in of_engine)
        cells.append([name.removeprefix("Lightbox, "), *tops, f"{difference:.2g}"])
    return tables.table(["", "top-1", "top-5", "largest difference"], cells)


if __name__ == "__main__":
    print("\n".join([*table(list(measure())), machine.measured_with()]))
