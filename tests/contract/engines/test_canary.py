"""The comparison of OpenVINO with TensorFlow in a child process."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.engines.test_signatures import COMPARED, copied, server
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino import canary
from lightbox.model_runtime.engines.openvino.verdicts import TENSORFLOW
from support.model_server import MODELS

pytestmark = pytest.mark.extended


def test_servers_that_start_at_the_same_time_share_what_they_find_out(tmp_path: Path) -> None:
    model, cache = copied(tmp_path), tmp_path / "cache"
    flag = f"--engine_cache_dir={cache}"
    with server(tmp_path / "a", model, flag) as one, server(tmp_path / "b", model, flag) as other:
        for running in (one, other):
            running.wait_ready()
            assert running.predict("m", instances=[1.0]) == (200, {"predictions": [2.5]})
    with server(tmp_path / "c", model, flag) as later:
        assert COMPARED not in later.wait_ready().stderr


def test_what_ends_the_process_ends_the_comparison_alone() -> None:
    """OpenVINO aborts while it reads this model."""
    task = canary.Task(
        str(MODELS / "classify_regress" / "1"), ("serve",), ("serving_default", "regress"), "", Hardware(1, 1)
    )
    found = canary.judge(task)
    assert {verdict.engine for verdict in found.values()} == {TENSORFLOW}
    assert set(found) == {"serving_default", "regress"}
