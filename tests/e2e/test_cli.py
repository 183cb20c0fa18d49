"""``lightbox serve`` on the command line: a file, named folders, an archive; with and without nginx."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import requests

from lightbox.features.page import FILES, POLICY
from lightbox.supervisor.starting.child_environment import CONTAINER_DIR
from lightbox.tools.harness.http_client import status_of
from lightbox.tools.harness.ports import free_ports
from lightbox.tools.harness.server_process import ServerProcess
from support.fakes import png
from support.isolation import own_environ
from support.onnx_models import write_classifier
from support.patience import PATIENCE

GREEN = png(np.full((40, 30, 3), (0, 255, 0)))


class Served(ServerProcess):
    """``lightbox serve`` with options alone, in its own folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.port = free_ports(3)
        ports = ("--port", str(self.port), "--safe-port-range", f"{self.port + 1}-{self.port + 2}")
        environ = own_environ() | {"PYTHONPATH": str(CONTAINER_DIR), "TMPDIR": str(folder)}
        command = [sys.executable, "-P", "-m", "lightbox", "serve", *words, *ports, "--model-server", "embedded"]
        super().__init__(command, environ, folder)
        self.url = f"http://127.0.0.1:{self.port}"

    def first_class(self, **headers: str) -> object:
        answer = requests.post(
            f"{self.url}/invocations",
            data=GREEN,
            headers={"Content-Type": "application/x-image"} | headers,
            timeout=PATIENCE,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["predictions"][0][0]


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[Served]:
    with Served(folder, *words) as served:
        served.wait_until(lambda: status_of(served.port, "/ping", seconds=PATIENCE) == 200, PATIENCE)
        yield served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_classifier(tmp_path / "colors.onnx")
    (tmp_path / "names.txt").write_text("\n".join(["red", "green", "blue"]))
    return tmp_path / "colors.onnx"


def test_a_file_is_enough(file: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "colors.onnx", "--labels", "names.txt", "--scaling", "unit") as served:
        assert served.first_class() == {"label": "green", "class": 1, "score": pytest.approx(1, abs=0.5)}
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(PATIENCE) == 0
    assert not list(tmp_path.glob("lightbox-*"))


@pytest.mark.extended
def test_models_with_names_and_an_archive(file: Path, tmp_path: Path) -> None:
    for name in ("one", "packed"):
        (tmp_path / name / "1").mkdir(parents=True)
        shutil.copy(file, tmp_path / name / "1" / "model.onnx")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "packed" / "1", arcname="1")
    words = ["--model", "first=one", "--model", "second=colors.onnx", "--model", "third=packed.tar.gz"]
    with serving(tmp_path, *words, "--default-model", "second") as served:
        listed = requests.get(f"{served.url}/v2/models/third", timeout=PATIENCE).json()
        assert listed["platform"] == "onnx"
        answers = [
            served.first_class(**{"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={name}"})
            for name in ("first", "second", "third")
        ]
        assert answers[0] == answers[1] == answers[2]
        (tmp_path / "one" / "2").mkdir()
        shutil.copy(file, tmp_path / "one" / "2" / "model.onnx")
        served.wait_until(
            lambda: requests.get(f"{served.url}/v2/models/first", timeout=PATIENCE).json()["versions"] == ["2"],
            PATIENCE,
        )
    assert not list(tmp_path.glob("lightbox-*")), "what was unpacked was left behind"


@pytest.mark.extended
def test_a_stop_while_an_archive_is_unpacked_leaves_nothing(file: Path, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(os.urandom(1 << 20) * 100)
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz", compresslevel=1) as tar:
        tar.add(file, arcname="1/model.onnx")
        tar.add(tmp_path / "large.bin", arcname="large.bin")
    with Served(tmp_path, "packed.tar.gz", "--without-nginx") as served:
        served.wait_until(lambda: any(tmp_path.glob("lightbox-*/0/packed/large.bin")), PATIENCE)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
    assert not list(tmp_path.glob("lightbox-*"))


@pytest.mark.extended
def test_no_error_shows_a_caller_where_a_model_lies(file: Path, tmp_path: Path) -> None:
    code = tmp_path / "own" / "code" / "inference.py"
    code.parent.mkdir(parents=True)
    code.write_text("def preprocess(request): raise FileNotFoundError(f'no {__file__}')\n")
    shutil.copy(file, tmp_path / "own")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "own", arcname=".")
    with serving(tmp_path, "--model", "here=own", "--model", "there=packed.tar.gz", "--without-nginx") as served:
        for name in ("here", "there"):
            attributes = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={name}"}
            answer = requests.post(f"{served.url}/invocations", data=GREEN, headers=attributes, timeout=PATIENCE)
            assert answer.json()["error"] == f"handler failed: FileNotFoundError: no {name}/code/inference.py"


def test_without_nginx(file: Path, tmp_path: Path) -> None:
    with serving(tmp_path, str(file), "--without-nginx", "--page") as served:
        assert "without nginx, for a first try: no limit for slow clients" in served.log
        served.first_class()
        page = requests.get(f"{served.url}/", timeout=PATIENCE, allow_redirects=False)
        assert (page.text, page.headers["Content-Security-Policy"]) == ((FILES / "index.html").read_text(), POLICY)
        assert not requests.get(f"{served.url}/ui/start.json", timeout=PATIENCE).json()["metrics"]
        for path in ("/ui/none.js", "/ui/samples", "/ui/%2e%2e/__init__.py"):
            assert requests.get(served.url + path, timeout=PATIENCE).json()["code"] == "route_not_found"
        assert requests.get(f"{served.url}/v2/health/ready", timeout=PATIENCE).status_code == 200
        assert requests.get(f"{served.url}/metrics", timeout=PATIENCE).json()["code"] == "route_not_found"
        assert requests.post(f"{served.url}/invocations", data=b"none", timeout=PATIENCE).status_code in (400, 415)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0


@pytest.mark.extended
def test_without_nginx_models_are_loaded_by_requests(file: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "--multi-model", "--model-dir", ".", "--without-nginx") as served:
        (tmp_path / "one").mkdir()
        shutil.move(file, tmp_path / "one" / "model.onnx")
        loaded = requests.post(f"{served.url}/models", json={"model_name": "a", "url": "one"}, timeout=PATIENCE)
        assert loaded.status_code == 200, loaded.text
        served.first_class(**{"X-Amzn-SageMaker-Target-Model": "a"})
