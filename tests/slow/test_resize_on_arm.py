"""The resize in C with NEON, compiled for 64-bit ARM and run by an emulator: the same bits as Pillow's."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from support.stack import REPOSITORY

SOURCE = REPOSITORY / "container" / "lightbox" / "images" / "native_resize.c"
DRIVER = Path(__file__).with_name("resize_driver.c")
FILTERS = [Image.Resampling.BOX, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS]
CASES = 3000
NEON = 2
pytestmark = pytest.mark.timeout(3600)


@dataclass(frozen=True)
class Case:
    """An image, its box, and what becomes of it."""

    image: Image.Image
    size: tuple[int, int]
    box: tuple[float, float, float, float]
    by: int
    reverse: bool
    table: npt.NDArray[np.float32] | None

    def message(self) -> bytes:
        """Return what the driver reads: RGB with a byte behind each pixel, as Pillow keeps it."""
        step = 4 if self.image.mode == "RGB" else 1
        numbers = (*self.image.size, step, *self.size, self.by, self.reverse, self.table is not None, *self.box)
        pixels = self.image.convert("RGBX").tobytes() if step == 4 else self.image.tobytes()
        return struct.pack("8i4f", *numbers) + pixels + (b"" if self.table is None else self.table.tobytes())

    def expected(self) -> bytes:
        """Return what Pillow makes of it."""
        pixels = np.asarray(self.image.resize(self.size, FILTERS[self.by], self.box))
        pixels = pixels.reshape(self.size[1], self.size[0], -1)[:, :, :: -1 if self.reverse else 1]
        if self.table is None:
            return pixels.tobytes()
        return np.stack([row[pixels[:, :, channel]] for channel, row in enumerate(self.table)], axis=2).tobytes()


def random_case(random: np.random.Generator) -> Case:
    most = int(random.choice([12, 60, 300]))
    width, height, *size = (int(side) for side in random.integers(1, most + 1, 4))
    channels = 3 if random.random() < 0.6 else 1
    noise = random.integers(0, 256, (height, width, channels), np.uint8)
    image = Image.fromarray(noise if channels == 3 else noise[:, :, 0])
    box = (0.0, 0.0, float(width), float(height))
    if random.random() < 0.5:
        left, top, right, bottom = random.uniform([0, 0, 0.5, 0.5], [0.4, 0.4, 1, 1])
        box = (left * width, top * height, right * width, bottom * height)
    table = random.normal(size=(channels, 256)).astype(np.float32) if random.random() < 0.3 else None
    return Case(image, (size[0], size[1]), box, int(random.integers(4)), channels == 3 and random.random() < 0.3, table)


def test_neon_makes_pillows_bits(tmp_path: Path) -> None:
    subprocess.run(
        ["scripts/ensure_debian.sh", "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        cwd=REPOSITORY,
        check=True,
    )
    subprocess.run(["scripts/ensure_debian.sh", "qemu-aarch64", "qemu-user"], cwd=REPOSITORY, check=True)
    program = tmp_path / "driver"
    flags = ["-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-static"]
    subprocess.run(["aarch64-linux-gnu-gcc", *flags, "-o", program, SOURCE, DRIVER, "-lm"], check=True)
    random = np.random.default_rng(79)
    cases = [random_case(random) for _ in range(CASES)]
    done = subprocess.run(
        ["qemu-aarch64", program], input=b"".join(case.message() for case in cases), capture_output=True, check=True
    )
    assert done.stderr.decode() == f"instructions {NEON}\n"
    at = 0
    for number, case in enumerate(cases):
        wanted = case.expected()
        assert done.stdout[at : at + len(wanted)] == wanted, f"case {number}: {case.image} to {case.size}, {case.box}"
        at += len(wanted)
    assert at == len(done.stdout)
