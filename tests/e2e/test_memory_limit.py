"""A container of 1 GiB, as docs/image.md runs it: many large pictures at once end no process."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lightbox.model_runtime import cgroups
from support.patience import poll
from support.stack import Stack

pytestmark = pytest.mark.extended

CLIENTS = 40
LIMIT = 1 << 30


class Limited:
    """A cgroup with a limit of memory below this process's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        is_v2 = (folder / "memory.max").exists()
        (folder / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(str(LIMIT))
        self._events = folder / ("memory.events" if is_v2 else "memory.oom_control")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Start processes of this block in the cgroup."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.folder.parent / "cgroup.procs").write_text(str(os.getpid()))

    @property
    def kills(self) -> int:
        """The number of processes that the kernel has ended for want of memory."""
        found = re.search(r"^oom_kill (\d+)$", self._events.read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1])


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    own = next((folder for folder in cgroups.chain("memory") if (folder / "cgroup.procs").exists()), None)
    if own is None or os.geteuid() != 0:
        pytest.skip("needs root and a cgroup with the memory controller")
    folder = own / f"lightbox-{os.getpid()}"
    try:
        folder.mkdir()
        cgroup = Limited(folder)
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        pytest.skip(f"no cgroup with a limit can be made: {error}")
    yield cgroup
    for _ in poll():
        if not (folder / "cgroup.procs").read_text():
            break
    folder.rmdir()


def photo(orientation: int) -> bytes:
    """Return an ordinary JPEG of 48 megapixels, 2 to 4 MB."""
    small = np.random.default_rng(0).integers(0, 255, (150, 200, 3), np.uint8)
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(small).resize((8000, 6000), Image.Resampling.BICUBIC).save(file, "JPEG", quality=75, exif=exif)
    return file.getvalue()


def test_large_pictures_of_many_clients_end_no_process(sample_models: Path, tmp_path: Path, limited: Limited) -> None:
    bodies = [photo(orientation) for orientation in (1, 6)]
    with limited.entered():
        stack = Stack(sample_models / "mobilenet_v2", tmp_path)
    with stack:
        stack.wait_ready()
        alone = [stack.invoke(body, Content_Type="image/jpeg") for body in bodies]
        assert [answer.status_code for answer in alone] == [200, 200], [answer.text for answer in alone]
        with ThreadPoolExecutor(CLIENTS) as pool:
            chosen = [bodies[number % 10 == 0] for number in range(CLIENTS)]
            calls = [pool.submit(stack.invoke, body, Content_Type="image/jpeg") for body in chosen]
            answers = [call.result() for call in calls]
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) <= {200, 503}, counts
        assert counts[200] > 0, counts
        assert all(int(answer.headers["Retry-After"]) for answer in answers if answer.status_code == 503)
        assert "is started again" not in stack.log
    assert limited.kills == 0
