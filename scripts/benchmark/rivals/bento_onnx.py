"""BentoML with ONNX Runtime: bento_onnx.py PORT

The image is the raw body, the cheapest input of BentoML; logging and metrics are off. Pillow decodes and
resizes in worker processes that share the cores, as in LitServe.
"""

from __future__ import annotations

import os
import sys

import bentoml
import numpy as np
from PIL import Image

from benchmark.rivals import WORKERS, network

QUIET = {"logging": {"access": {"enabled": False}}, "metrics": {"enabled": False}}


@bentoml.service(workers=WORKERS, traffic={"timeout": 60}, **QUIET)
class Classifier:
    """One image in, its probabilities out."""

    def __init__(self) -> None:
        self._session = network.session(network.SHARE)

    @bentoml.api(route="/predict")
    def predict(self, image: Image.Image, /) -> np.ndarray:
        """Decode and resize the image and run the network; the graph scales the pixels."""
        return network.probabilities(self._session, image)


if __name__ == "__main__":
    os.environ["BENTOML_DO_NOT_TRACK"] = "true"
    command = [sys.executable, "-m", "bentoml", "serve", "benchmark.rivals.bento_onnx:Classifier"]
    os.execv(sys.executable, [*command, "--host", "127.0.0.1", "--port", sys.argv[1]])  # noqa: S606 - our own module
