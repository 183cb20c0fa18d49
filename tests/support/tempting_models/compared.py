"""Verdicts of all tempting models from one process, which imports TensorFlow once."""

from __future__ import annotations

import io
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino import canary
from lightbox.model_runtime.engines.selection import Opener
from support.tempting_models import MODELS


def compare(models: Path, cache: Path) -> None:
    """Cache a verdict for each model: OpenVINO for each signature with equal results, however slow."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        apart.submit(_compare, models, cache).result()


def _compare(models: Path, cache: Path) -> None:
    opener = Opener(AUTO, ("serve",), b"", Hardware(1, 1, "f32", str(cache)))
    with patch.multiple(canary, GAIN=-1e9, GAIN_SECONDS=-1e9, _ROUNDS=1, run=_run_here):
        for model in MODELS:
            opener.choices(str(models / model / "1"), compares=True, keeps=False)


def _run_here(command: list[str]) -> tuple[bytes, str]:
    """Run the child's program in this process. All verdicts last, so that a server compares nothing again."""
    with redirect_stdout(io.StringIO()) as output:
        canary.main(command[-1:])
    return output.getvalue().replace('"lasts": false', '"lasts": true').encode(), ""
