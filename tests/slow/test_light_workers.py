"""The memory of Lightbox's own workers after hundreds of requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from support.fakes import png
from support.stack import running

pytestmark = pytest.mark.timeout(3600)

WIRES = ["grpc", "rest"]


def test_workers_stay_light_and_without_tensorflow(sample_models: Path, tmp_path: Path) -> None:
    image = png(np.random.default_rng(0).integers(0, 256, (480, 640, 3)))
    assert len(image) > 900_000
    with running(sample_models / "digits", tmp_path) as stack, ThreadPoolExecutor(8) as pool:
        wires = [f"tfs-transport={wire}, tfs-model-name=digits" for wire in WIRES]
        answers = pool.map(
            lambda i: stack.invoke(image, X_Amzn_SageMaker_Custom_Attributes=wires[i % 10 == 0]),
            range(200),
        )
        assert {answer.status_code for answer in answers} == {200}
        master, *workers = sorted(stack.processes("gunicorn"), key=psutil.Process.create_time)
        assert workers
        for process in (master, *workers):
            assert process.memory_info().rss < 110e6
            assert not [file.path for file in process.memory_maps() if "libtensorflow" in file.path]
