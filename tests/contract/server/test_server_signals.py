"""Shutdown by signals, as observed on the real server."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.held import Door, export_held_image
from support.model_server import ModelServer, image
from support.patience import PATIENCE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_calls_end(tmp_path: Path, door: Door, number: signal.Signals) -> None:
    export_held_image(tmp_path / "held", door)
    flags = ["--model_name=held", f"--model_base_path={tmp_path}/held"]
    with ModelServer(tmp_path / "server", *flags) as server, ThreadPoolExecutor(1) as pool:
        server.wait_ready()
        call = pool.submit(server.predict, "held", instances=[image(1)])
        door.wait_for(1)
        server.process.send_signal(number)
        server.until(server.is_stopping)
        server.process.send_signal(number)  # again: it changes nothing
        door.open()
        assert server.wait_end() == -number
        assert call.result(PATIENCE) == (200, {"predictions": [1]})
        assert "Exception ignored" not in server.stderr


def test_a_signal_cuts_calls_where_the_real_servers_faults_are_asked_for(tmp_path: Path, door: Door) -> None:
    export_held_image(tmp_path / "held", door)
    flags = ["--model_name=held", f"--model_base_path={tmp_path}/held", "--as_tensorflow_serving"]
    with ThreadPoolExecutor(1) as pool, ModelServer(tmp_path / "server", *flags) as server:
        server.wait_ready()
        call = pool.submit(server.predict, "held", instances=[image(1)])
        door.wait_for()
        server.process.terminate()
        assert server.wait_end() == -signal.SIGTERM
        with pytest.raises(OSError, match="without response"):
            call.result(PATIENCE)


def test_a_signal_ends_a_server_that_still_loads(tmp_path: Path) -> None:
    corrupt = tmp_path / "x" / "1"
    corrupt.mkdir(parents=True)
    (corrupt / "saved_model.pb").write_bytes(b"garbage")
    flags = ["--model_name=x", f"--model_base_path={corrupt.parent}"]
    with ModelServer(tmp_path / "server", *flags) as server:
        server.until(lambda: "failed: OUT_OF_RANGE" in server.stderr)
        server.process.terminate()
        assert server.wait_end() == -signal.SIGTERM
