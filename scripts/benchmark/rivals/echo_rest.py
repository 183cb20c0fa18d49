"""The REST server of the study from the client: echo_rest.py PORT

It reads what is sent and answers a hundred random numbers, whatever came.
"""

import random
import sys

import uvicorn
from fastapi import FastAPI, Request
from pydantic import BaseModel


class Basic(BaseModel):
    """Structured data."""

    field1: str
    field2: str
    field3: int
    field4: dict[str, int]


class Base64Image(BaseModel):
    """An image as text."""

    image: str


class Answer(BaseModel):
    """What every request gets."""

    prediction1: list[float]
    prediction2: dict[str, int]


app = FastAPI()


def answer() -> Answer:
    """Return numbers such as a model might."""
    return Answer(
        prediction1=[random.random() for _ in range(100)],  # noqa: S311 - nothing is secret here
        prediction2={str(number): number for number in range(10)},
    )


@app.get("/")
async def health() -> dict[str, str]:
    """Tell that the server runs."""
    return {"status": "healthy"}


@app.post("/basic")
async def basic(request: Basic) -> Answer:
    """Take structured data."""
    return answer()


@app.post("/base64")
async def base64_image(request: Base64Image) -> Answer:
    """Take an image as text."""
    return answer()


@app.post("/binary")
async def binary_image(request: Request) -> Answer:
    """Take an image as it is."""
    await request.body()
    return answer()


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
