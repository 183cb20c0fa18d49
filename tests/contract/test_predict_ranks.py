"""Too low a rank: the embedded server's guard refuses it. Without the guard the process ends, as recorded."""

from __future__ import annotations

import http.client
import signal
from pathlib import Path

import pytest

from support.model_server import ModelServer
from support.patience import PATIENCE


def test_too_low_a_rank_does_not_end_the_server(tmp_path: Path, convolution: Path) -> None:
    with ModelServer(
        tmp_path, "--model_name=conv", f"--model_base_path={convolution}", env={"TF_ENABLE_ONEDNN_OPTS": "1"}
    ) as server:
        server.wait_ready()
        for low in (1.0, [1.0, 2.0], [[1.0, 2.0]]):
            status, body = server.predict("conv", instances=[low])
            assert status == 400
            assert body["error"].startswith("input must be 4-dimensional, but ")
        assert server.predict("conv", instances=[[[[1.0]] * 4] * 4])[0] == 200


def test_without_its_guard_too_low_a_rank_ends_it_as_it_ends_the_real_server(tmp_path: Path, convolution: Path) -> None:
    flags = ["--model_name=conv", f"--model_base_path={convolution}", "--rank_guard=false"]
    with ModelServer(tmp_path, *flags, env={"TF_ENABLE_ONEDNN_OPTS": "1"}) as server:
        server.wait_ready()
        assert server.predict("conv", instances=[[[[1.0]] * 4] * 4])[0] == 200
        with pytest.raises((http.client.HTTPException, OSError)):
            server.predict("conv", instances=[1.0, 2.0, 3.0])
        assert server.process.wait(PATIENCE) == -signal.SIGABRT
