"""The threads of TensorFlow's sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.model_server import MODELS, ModelServer

pytestmark = pytest.mark.extended
HALF = ("--model_name=half", f"--model_base_path={MODELS}/half_plus_two")


def test_threads_of_a_session(tmp_path: Path) -> None:
    config = tmp_path / "session"
    config.write_text("intra_op_parallelism_threads: 1")
    flags = ["--tensorflow_inter_op_parallelism=1", f"--tensorflow_session_config_file={config}"]
    with ModelServer(tmp_path, *HALF, *flags) as server:
        server.wait_ready()
        assert server.predict("half", instances=[1.0]) == (200, {"predictions": [3.5]})
