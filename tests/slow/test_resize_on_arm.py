"""The resize in C with NEON, compiled for 64-bit ARM and run in an emulator: the same bits as Pillow's."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from lightbox.images.preparation import Placement, Preparation
from lightbox.images.resize import INTERPOLATING, Resizer
from support.stack import REPOSITORY

SOURCE = REPOSITORY / "container" / "lightbox" / "model_runtime" / "native" / "resize.c"
DRIVER = Path(__file__).with_name("resize_driver.c")
FILTERS = [Image.Resampling.BOX, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS]
CASES = 3000
NEON = 2
pytestmark = pytest.mark.timeout(3600)


@dataclass(frozen=True)
class Case:
    """An image, its resized size, and the part to compute: left, top, width and height."""

    image: Image.Image
    whole: tuple[int, int]
    part: tuple[int, int, int, int]
    by: int
    table: npt.NDArray[np.float32] | None

    def message(self) -> bytes:
        """Return the driver's input: RGB with a padding byte after each pixel, Pillow's layout."""
        step = 4 if self.image.mode == "RGB" else 1
        numbers = (*self.image.size, step, *self.whole, *self.part, self.by, self.table is not None)
        pixels = self.image.convert("RGBX").tobytes() if step == 4 else self.image.tobytes()
        return struct.pack("11i", *numbers) + pixels + (b"" if self.table is None else self.table.tobytes())

    def expected(self) -> bytes:
        """Return Pillow's result, or numpy's with the method of TensorFlow or OpenCV."""
        left, top, width, height = self.part
        if self.by < 0:
            out = np.empty((height, width, len(self.image.getbands())), np.float32)
            by = INTERPOLATING[-1 - self.by]
            Resizer(1).fill(self.image, out, Preparation(by), Placement(self.whole, -left, -top), by_all_cores=False)
            return out.tobytes()
        pixels = np.asarray(self.image.resize(self.whole, FILTERS[self.by]))
        pixels = pixels.reshape(self.whole[1], self.whole[0], -1)[top:, left:][:height, :width]
        if self.table is None:
            return pixels.tobytes()
        return np.stack([row[pixels[:, :, channel]] for channel, row in enumerate(self.table)], axis=2).tobytes()


def random_case(random: np.random.Generator) -> Case:
    most = int(random.choice([12, 60, 300]))
    width, height, *whole = (int(side) for side in random.integers(1, most + 1, 4))
    channels = 3 if random.random() < 0.6 else 1
    noise = random.integers(0, 256, (height, width, channels), np.uint8)
    image = Image.fromarray(noise if channels == 3 else noise[:, :, 0])
    part = (0, 0, whole[0], whole[1])
    if random.random() < 0.5:
        left, top = (int(random.integers(side)) for side in whole)
        part = (left, top, int(random.integers(1, whole[0] - left + 1)), int(random.integers(1, whole[1] - top + 1)))
    by = int(random.integers(-2, 4))
    table = random.normal(size=(channels, 256)).astype(np.float32) if by >= 0 and random.random() < 0.3 else None
    return Case(image, (whole[0], whole[1]), part, by, table)


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
        assert done.stdout[at : at + len(wanted)] == wanted, f"case {number}: {case}"
        at += len(wanted)
    assert at == len(done.stdout)
