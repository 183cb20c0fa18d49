"""FastAPI with ONNX Runtime, as in the model-serving study: fastapi_onnx.py PORT NETWORK WORKERS

Each uvicorn worker has one session with one thread; the handler is a coroutine that decodes with Pillow. A NETWORK that
ends with ``_resize`` resizes in the graph, as in the study; otherwise Pillow resizes. `/predict/` takes base64 in
JSON, as in the study; `/binary/` takes the raw image.
"""

import base64
import io
import os
import sys

import uvicorn
from fastapi import FastAPI, Request
from PIL import Image
from pydantic import BaseModel

from benchmark.rivals import network

NETWORK = "LIGHTBOX_BENCH_NETWORK"


class Payload(BaseModel):
    """An image as base64."""

    image: str


def application() -> FastAPI:
    """Return the app of a worker."""
    app = FastAPI()
    name = os.environ[NETWORK]
    session = network.session(name, threads=1)

    def predict(body: bytes) -> dict[str, list[list[float]]]:
        image = Image.open(io.BytesIO(body))
        probabilities = network.probabilities(session, image, resize=not name.endswith("_resize"))
        return {"predictions": probabilities.tolist()}

    @app.get("/")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.post("/predict/")
    async def base64_image(payload: Payload) -> dict[str, list[list[float]]]:
        return predict(base64.b64decode(payload.image))

    @app.post("/binary/")
    async def binary_image(request: Request) -> dict[str, list[list[float]]]:
        return predict(await request.body())

    return app


if __name__ == "__main__":
    os.environ[NETWORK] = sys.argv[2]
    uvicorn.run(
        "benchmark.rivals.fastapi_onnx:application",
        factory=True,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        workers=int(sys.argv[3]),
        log_level="warning",
    )
