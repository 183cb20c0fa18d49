"""The sample models, made once: ``python -m support.samples`` makes them before the tests begin."""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest.mock import patch

from lightbox.tools.model_zoo import mobilenet_v2
from sample_models import main
from support.made_models import made


def sample_models() -> Path:
    """Return the folder of ``make models``, made without access to ImageNet's weights."""
    return made("samples", _make_apart)


def _make_apart(folder: Path) -> None:
    """Keep Keras out of this process: models that TensorFlow runs here later would differ in the last digits."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        apart.submit(_make, folder).result()


def _make(folder: Path) -> None:
    with socket.socket() as held, tempfile.TemporaryDirectory() as keras:
        held.bind(("127.0.0.1", 0))  # nothing listens there
        url = f"http://127.0.0.1:{held.getsockname()[1]}/weights.h5"
        with patch.dict(os.environ, {"KERAS_HOME": keras}), patch.object(mobilenet_v2, "WEIGHTS_URL", url):
            assert main([str(folder)]) == 0


if __name__ == "__main__":
    sample_models()
