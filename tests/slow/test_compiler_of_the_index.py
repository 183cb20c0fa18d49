"""Without a C compiler on the machine, a compiler from the package index builds the resize with the same bits."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lightbox.images.resize import NativeResize
from lightbox.images.resize_library import INSTRUCTIONS
from support import commands
from support.isolation import clean_environ
from support.stack import REPOSITORY

TOOLS = ("bash", "dirname", "env", "id", "mkdir", "mv", "rm", "uname")
"""Programs that the script needs. There is no cc among them, no apt-get and no sudo."""
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def bare_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    return folder


def test_it_makes_the_same_bits(bare_path: Path, tmp_path: Path) -> None:
    library = tmp_path / "resize.so"
    command = [str(bare_path / "bash"), "scripts/build_native.sh", str(library)]
    done = commands.run(command, clean_environ() | {"PATH": str(bare_path)}, REPOSITORY, patience=None)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cc is missing" in done.stderr
    assert "Pillow resizes" not in done.stdout
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (300, 400, 3), np.uint8))
    native = NativeResize(library)
    assert native.instructions in INSTRUCTIONS
    for mode in ("RGB", "L"):
        for size in ((224, 224), (37, 500)):
            converted = image.convert(mode)
            out = np.empty((size[1], size[0], len(converted.getbands())), np.uint8)
            assert native.resize(converted, Image.Resampling.BICUBIC, out)
            assert out.tobytes() == converted.resize(size).tobytes()
