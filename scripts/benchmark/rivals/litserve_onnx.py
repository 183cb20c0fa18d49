"""LitServe with ONNX Runtime: litserve_onnx.py PORT NETWORK WORKERS

The image is the file of a multipart form, LitServe's way to take binary data. Decoding and resizing with
Pillow and the network itself run in LitServe's inference workers, which share the cores: each session has as many
threads as its share.
"""

import io
import sys

import litserve
import numpy as np
from fastapi import Request
from PIL import Image

from benchmark.rivals import network


class Classifier(litserve.LitAPI):
    """One image in, its probabilities out."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__()
        self._name = name
        self._threads = threads

    def setup(self, device: str) -> None:
        """Load the network in the worker."""
        self._session = network.session(self._name, self._threads)

    def decode_request(self, request: Request) -> bytes:
        """Return the form's file unchanged."""
        return request["image"].file.read()

    def predict(self, body: bytes) -> np.ndarray:
        """Decode and resize the image and run the network; the graph scales the pixels."""
        return network.probabilities(self._session, Image.open(io.BytesIO(body)))

    def encode_response(self, probabilities: np.ndarray) -> dict[str, list[list[float]]]:
        """Return the response in TensorFlow Serving's format."""
        return {"predictions": probabilities.tolist()}


if __name__ == "__main__":
    port, name, workers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    classifier = Classifier(name, network.threads_of(workers))
    server = litserve.LitServer(classifier, accelerator="cpu", workers_per_device=workers)
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="warning")
