"""Which model server a soak runs, and which worker it kills."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lightbox.core.request_context import RequestContext
from lightbox.transports.pending_reload import FILE, begin
from real_server.program import NoServer
from soak.killer import holder
from soak.stack import VARIABLE, model_servers

NAME = "tensorflow_model_server"


def test_the_embedded_server_takes_the_real_ones_place_where_models_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with model_servers() as (fixed, changing):
        assert fixed == ((VARIABLE, "embedded"),)
        assert dict(changing)[VARIABLE] == NAME
        program = Path(dict(changing)["PATH"].partition(os.pathsep)[0], NAME)
        assert "--as_tensorflow_serving" in program.read_text()


def test_the_real_server_is_taken_where_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, NAME)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoServer), model_servers():
        pass
    real = tmp_path / NAME
    real.write_text("#!/bin/sh\necho real\n")
    real.chmod(0o755)
    with model_servers() as (fixed, changing):
        assert fixed == changing
        program = Path(dict(fixed)["PATH"].partition(os.pathsep)[0], NAME)
        assert subprocess.check_output([program], text=True) == "real\n"


def test_the_worker_in_a_load_is_found_by_its_lock(tmp_path: Path) -> None:
    assert holder(tmp_path / FILE.format(0)) is None
    end = begin(tmp_path, 0, "load", "m", RequestContext(0))
    assert holder(tmp_path / FILE.format(0)) == os.getpid()
    end()
    assert holder(tmp_path / FILE.format(0)) is None
