"""A start with early callers: requests before readiness get a retry hint, requests that wait are answered."""

from __future__ import annotations

import http.client
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from lightbox.model_runtime.engines.setting import IN_MODEL
from lightbox.tools.harness.http_client import Client, Response
from support.error_shape import assert_error
from support.fakes import png
from support.held import Door
from support.models import export_constant
from support.patience import PATIENCE, poll
from support.real_binary import real_binary
from support.stack import Stack

pytestmark = pytest.mark.extended

IMAGE = png(np.full((8, 8, 3), (7, 0, 0)))


def ask(port: int, method: str, path: str, body: bytes | None = None) -> Response | None:
    """Return the answer to one request on its own connection, or None if no process listens yet."""
    with Client(port, timeout=PATIENCE) as client:
        try:
            return client.send(method, path, body, {"Content-Type": "image/png"} if body else None)
        except ConnectionRefusedError:
            return None


def test_a_second_start_finds_what_the_first_found_out(
    sample_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default the cache is in the home folder of the user that starts the server."""
    models = tmp_path / "digits"
    shutil.copytree(sample_models / "digits", models, ignore=shutil.ignore_patterns(IN_MODEL.name))
    monkeypatch.delenv("XDG_CACHE_HOME")
    environ = {"LIGHTBOX_ENGINE": "", "SAGEMAKER_GUNICORN_LOGLEVEL": "debug", "HOME": str(tmp_path / "home")}
    compares = []
    for number in (1, 2):
        with Stack(models, tmp_path / f"run{number}", environ) as stack:
            stack.wait_ready()
            compares.append("comparing OpenVINO with TensorFlow" in stack.log)
    assert compares == [True, False]
    cache = tmp_path / "home" / ".cache" / "lightbox"
    assert cache.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with Stack(models, tmp_path / "run3", environ | {"HOME": str(tmp_path / "file")}) as stack:
        stack.wait_ready()
        assert f"are cached for this run only: {tmp_path / 'file' / '.cache'}: Not a directory" in stack.log


def test_requests_before_readiness_get_retry_after(tmp_path: Path) -> None:
    export_constant(tmp_path / "models" / "constant", 1, 0.5)
    environ, door = real_binary(tmp_path), Door(tmp_path / "door")
    program = tmp_path / "bin" / "tensorflow_model_server"
    program.write_text(program.read_text().replace("import sys\n", f"import sys\n{door.code}\n", 1))
    reply, ready = Event(), Event()
    with Stack(tmp_path / "models", tmp_path / "run", environ) as stack, ThreadPoolExecutor(4) as pool, door:

        def call_until_ready() -> list[Response | None]:
            answers = []
            for _ in poll(pause=0.02):
                answers.append(ask(stack.port, "POST", "/invocations", IMAGE))  # a reset raises
                if answers[-1] is not None:
                    reply.set()
                if ready.is_set():
                    break
            return answers

        def call_when_ready() -> Response:  # as a platform does that holds requests until readiness
            assert ready.wait(PATIENCE), stack.log
            answer = ask(stack.port, "POST", "/invocations", IMAGE)
            assert answer is not None
            return answer

        early = [pool.submit(call_until_ready) for _ in range(2)]
        held = [pool.submit(call_when_ready) for _ in range(2)]
        pings = []
        for _ in poll(pause=0.02):
            ping = ask(stack.port, "GET", "/ping")
            if ping is not None and ping.status == http.client.OK:
                ready.set()
                break
            pings.append((ping, "/ping"))
            if ping is not None and reply.is_set():
                door.open()  # the model server may start
        assert ready.is_set(), stack.log
        calls = [(answer, "/invocations") for call in early for answer in call.result()]
        refused = [(answer, path) for answer, path in [*pings, *calls] if answer and answer.status != http.client.OK]
        assert {path for _, path in refused} == {"/ping", "/invocations"}
        for answer, path in refused:
            assert_error(answer.status, answer.headers, answer.body, path, "starting")
            assert int(answer.headers["Retry-After"]) >= 1
        for call in held:
            assert call.result().status == http.client.OK, call.result().body
