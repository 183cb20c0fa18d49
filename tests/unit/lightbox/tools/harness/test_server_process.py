"""Server processes and the environment of a stack."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from lightbox.tools.harness.server_process import ServerFailed, ServerProcess
from lightbox.tools.harness.stack import clean_environ
from support.patience import PATIENCE, poll


def shell(script: str, folder: Path | None = None) -> ServerProcess:
    return ServerProcess(["sh", "-c", script], os.environ, folder)


def test_a_server_that_ends_shows_its_log(tmp_path: Path) -> None:
    with shell("echo out of order; exit 3", tmp_path) as server:
        with pytest.raises(ServerFailed, match=r"(?s)ended with exit code 3;.*out of order") as caught:
            server.wait_until(lambda: False)
        assert (caught.value.ended, caught.value.log) == (True, "out of order\n")
    assert server.log == "out of order\n"


def test_a_server_that_takes_too_long_is_distinguished() -> None:
    with shell("exec sleep 3600") as server, pytest.raises(ServerFailed, match="not ready within 0 s") as caught:
        server.wait_until(lambda: False, 0.1)
    assert not caught.value.ended


def test_orphans_do_not_outlive_the_server(tmp_path: Path) -> None:
    with shell("trap '' TERM; sh -c 'trap \"\" TERM; echo $$; sleep 3600; true' & sleep 3600", tmp_path) as server:
        server.wait_until(lambda: bool(server.log), PATIENCE)
        orphan = psutil.Process(int(server.log))
        server.process.kill()
    assert any(not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE for _ in poll())


def test_settings_of_this_shell_do_not_reach_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIGHTBOX_TRANSPORT", "SAGEMAKER_GUNICORN_WORKERS", "PREDICT_USING_GRPC", "GRPC_VERBOSITY"):
        monkeypatch.setenv(name, "1")
    assert not [key for key in clean_environ() if key.startswith(("LIGHTBOX", "SAGEMAKER", "PREDICT", "GRPC"))]
    assert clean_environ()["PATH"] == os.environ["PATH"]
