"""Weights without training: seeded random numbers, and a bounded look for real ones on the internet."""

import shutil
import threading
import urllib.error
import urllib.request
from math import prod, sqrt
from pathlib import Path, PurePosixPath
from typing import Any

REACH_SECONDS = 8.0
STALL_SECONDS = 20.0


def fill_seeded(model: Any, seed: int, gains: dict[str, float] | None = None) -> None:
    """Give a Keras model random weights that are the same in every run and on every machine.

    Kernels are normal with standard deviation gain / sqrt(fan in), 1 unless `gains` names the kernel's layer;
    normalisation is left at mean 0, variance 1. Drawn by NumPy: Keras's own initializers depend on the order
    in which the process built its layers.
    """
    import numpy as np

    random = np.random.Generator(np.random.PCG64(seed))
    gains = gains or {}
    for variable in model.variables:
        path = PurePosixPath(variable.path)
        if path.name.endswith("kernel"):
            gain = gains.get(path.parent.name, 1.0)
            drawn = random.standard_normal(variable.shape, dtype=np.float32)
            variable.assign(drawn * np.float32(gain / sqrt(fan_in(variable.shape))))


def fan_in(shape: tuple[int, ...]) -> int:
    """Return how many inputs one output of this kernel sums; depthwise, [H, W, C, 1], only one channel's."""
    depthwise = len(shape) == 4 and shape[-1] == 1
    return prod(shape[:2]) if depthwise else prod(shape[:-1])


def unreachable(url: str, seconds: float = REACH_SECONDS) -> str | None:
    """Return why `url` cannot be had within `seconds`, or None when its server answers.

    A thread carries the attempt because name resolution knows no timeout.
    """
    problem = [f"no answer within {seconds:g} s"]

    def attempt() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the callers' URLs are constants
            with urllib.request.urlopen(request, timeout=seconds):  # noqa: S310
                problem.clear()
        except urllib.error.HTTPError as error:
            problem[:] = [f"HTTP {error.code}"]
        except OSError as error:
            problem[:] = [str(getattr(error, "reason", error))]

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    return problem[0] if problem else None


def download(url: str, target: Path) -> str | None:
    """Download `url` to `target`; return why it failed, or None. No wait without data is longer than 20 s."""
    problem = unreachable(url)
    if problem is None:
        try:
            with urllib.request.urlopen(url, timeout=STALL_SECONDS) as response, target.open("wb") as file:  # noqa: S310
                shutil.copyfileobj(response, file)
        except OSError as error:
            problem = str(error)
    return problem
