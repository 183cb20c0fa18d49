"""The load: one request repeated over keep-alive connections, each client in its own thread."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import repeat
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

from lightbox.images.decode import is_image
from lightbox.tools.harness import http_client

LEAST_CALLS = 3
"""Calls whose median is taken, where one takes longer than the time that is given."""
HEADERS = {"Content-Type": "application/x-image"}
_QUALITY = 90
_COARSEST, _STRONGEST, _FADING = 4, 40.0, 0.75
"""Cells across, the strength of their contrast, and how much weaker it is in cells of half the size: as in photographs,
so that the file has about as many bytes as one."""
WIDTH, HEIGHT = 1024, 768


class LoadFailed(Exception):
    """A request was not answered as it should be; the message says how, in one sentence."""


class Client:
    """One caller with one connection."""

    def __init__(self, port: int, body: bytes, timeout: float) -> None:
        """``timeout`` is how many seconds a response may take."""
        self._client = http_client.Client(port, timeout)
        self._body = body
        self._timeout = timeout

    def call(self) -> float:
        """Post the body, read the response and return the seconds that it took; raise LoadFailed."""
        began = time.perf_counter()
        try:
            response = self._client.send("POST", "/invocations", self._body, HEADERS)
        except TimeoutError:
            raise LoadFailed(f"a request took more than {self._timeout:.1f} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise LoadFailed(f"a request failed: {error or type(error).__name__}") from None
        if response.status != http.HTTPStatus.OK:
            raise LoadFailed(f"a request was answered with {response.status}: {_reason(response.body)}")
        return time.perf_counter() - began

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Load:
    """Some clients of one stack, which ask together or one alone."""

    def __init__(self, port: int, body: bytes, clients: int, timeout: float) -> None:
        """``timeout`` is how many seconds a response may take."""
        self._clients = [Client(port, body, timeout) for _ in range(clients)]

    def latency(self, seconds: float) -> float:
        """Run one client for ``seconds``; return the median of a request in seconds. Raises LoadFailed."""
        end = time.perf_counter() + seconds
        times: list[float] = []
        while len(times) < LEAST_CALLS or time.perf_counter() < end:
            times.append(self._clients[0].call())
        return median(times)

    def throughput(self, seconds: float) -> float:
        """Run all clients for ``seconds``; return responses per second up to the last one. Raises LoadFailed."""
        began = time.perf_counter()
        with ThreadPoolExecutor(len(self._clients)) as pool:
            found = pool.map(_keep_asking, self._clients, repeat(began + seconds))
            ends = [end for of_client in found for end in of_client]
        return len(ends) / (max(ends) - began)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()


def _keep_asking(client: Client, end: float) -> list[float]:
    """Ask until ``end``, at least once; return when each response came. Raises LoadFailed."""
    ends: list[float] = []
    while not ends or ends[-1] < end:
        client.call()
        ends.append(time.perf_counter())
    return ends


def _reason(content: bytes) -> str:
    """Return the sentence of an error body."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, TypeError, KeyError):
        return content[:200].decode(errors="replace")


def photo_like(width: int, height: int) -> bytes:
    """Return a JPEG with large shapes and fine detail; the same bytes each time.

    At 1024x768 it has 0.2 MB and takes as long to decode and resize as a photograph of that size.
    """
    random = np.random.default_rng(0)
    levels = np.full((height, width, 3), 128, np.float32)
    cells, strength = _COARSEST, _STRONGEST
    while cells <= width:
        for channel in range(3):
            shapes = random.normal(0, strength, (max(1, cells * height // width), cells)).astype(np.float32)
            levels[..., channel] += np.asarray(
                Image.fromarray(shapes).resize((width, height), Image.Resampling.BICUBIC)
            )
        cells, strength = cells * 2, strength * _FADING
    encoded = BytesIO()
    Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(encoded, "jpeg", quality=_QUALITY)
    return encoded.getvalue()


class ImageUnreadable(Exception):
    """The user's image cannot be sent; the message is one sentence that names the file."""


def image_to_send(path: Path | None) -> tuple[bytes, str]:
    """Return the bytes of an image and a short description. Raises ImageUnreadable."""
    if path is None:
        body = photo_like(WIDTH, HEIGHT)
        return body, f"a made-up JPEG of {WIDTH}x{HEIGHT} pixels, {len(body) / 1000:.0f} kB"
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ImageUnreadable(f"--image: {path} cannot be read: {error.strerror}") from None
    if not is_image(body):
        raise ImageUnreadable(f"--image: {path} is no image of a format that Lightbox reads")
    return body, f"{path.name}, {len(body) / 1000:.0f} kB"
