"""LitServe with ONNX Runtime: litserve_onnx.py PORT

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

from benchmark.rivals import WORKERS, network


class Classifier(litserve.LitAPI):
    """One image in, its probabilities out."""

    def setup(self, device: str) -> None:
        """Load the network in the worker."""
        self._session = network.session(network.SHARE)

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
    server = litserve.LitServer(Classifier(), accelerator="cpu", workers_per_device=WORKERS)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
