"""Reloads of nginx; tests/e2e has nginx itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.core.start import Start
from lightbox.features import prepare
from lightbox.model.plan import ServingPlan
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.nginx_process import NginxProcess
from lightbox.tools.harness.ports import free_ports

LOST = "2026/11/29 01:00:00 [alert] 1#1: worker process 7 exited on signal 9"


def test_a_lost_worker_renews_the_counters_unless_nginx_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    settings = load_settings({"SAGEMAKER_BIND_TO_PORT": str(free_ports())})
    reloaded = list[str]()
    stopping = asyncio.Event()
    with RunDir() as run_dir:
        start = Start(settings, ServingPlan(models={}, default_model=None, model_servers=()), run_dir)
        conf = run_dir.path / "nginx.conf"
        nginx = NginxProcess(start, prepare(start), {}, stopping, lambda: reloaded.append(conf.read_text()))
        first = conf.read_text()
        assert nginx.child is not None
        assert nginx.bodies.take("7", "a", start.room // 2)
        assert nginx.child.edit(LOST) == LOST
        assert nginx.bodies.take("8", "b", start.room // 2), "the room of the lost worker is free"
        assert first not in reloaded
        stopping.set()
        nginx.child.edit(LOST)
        assert reloaded == [conf.read_text()]
        nginx.close_listeners()
