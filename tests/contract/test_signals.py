"""What happens at the end, as observed on the real server."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from support.model_server import MODELS, ModelServer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_calls_end(tmp_path: Path, number: signal.Signals) -> None:
    flags = ["--model_name=slow", f"--model_base_path={MODELS}/slow"]
    with ModelServer(tmp_path, *flags) as server:
        server.wait_ready()
        outcomes: list[int] = []
        client = threading.Thread(target=lambda: outcomes.append(server.predict("slow", instances=[300_000])[0]))
        client.start()
        server.wait_until_computing()
        server.process.send_signal(number)
        assert server.wait_end() == -number
        client.join()
        assert outcomes == [200]


def test_a_signal_ends_a_server_that_still_loads(tmp_path: Path) -> None:
    corrupt = tmp_path / "x" / "1"
    corrupt.mkdir(parents=True)
    (corrupt / "saved_model.pb").write_bytes(b"garbage")
    flags = ["--model_name=x", f"--model_base_path={corrupt.parent}"]
    with ModelServer(tmp_path / "server", *flags) as server:
        server.until(lambda: "failed: OUT_OF_RANGE" in server.stderr)
        server.process.terminate()
        assert server.wait_end(10) == -signal.SIGTERM
