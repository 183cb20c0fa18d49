"""FastAPI with ONNX Runtime: fastapi_onnx.py PORT

Each uvicorn worker has one session with one thread; the handler is a coroutine that decodes and resizes with Pillow.
"""

import io
import sys

import uvicorn
from fastapi import FastAPI, Request
from PIL import Image

from benchmark.rivals import WORKERS, network


def application() -> FastAPI:
    """Return the app of a worker."""
    app = FastAPI()
    session = network.session(threads=1)

    @app.get("/")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.post("/binary/")
    async def binary_image(request: Request) -> dict[str, list[list[float]]]:
        image = Image.open(io.BytesIO(await request.body()))
        return {"predictions": network.probabilities(session, image).tolist()}

    return app


if __name__ == "__main__":
    uvicorn.run(
        "benchmark.rivals.fastapi_onnx:application",
        factory=True,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        workers=WORKERS,
        log_level="warning",
    )
