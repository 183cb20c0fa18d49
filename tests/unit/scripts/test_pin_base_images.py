"""Digests from a small registry with the distribution API of public ones, without the tokens that skopeo gets."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from docker_image import stand_ins
from pin_base_images import FILES, REFERENCE, main
from support.http_server import QuietHandler
from support.patience import PATIENCE
from support.stack import REPOSITORY

INDEX = "application/vnd.oci.image.index.v1+json"


class Registry(ThreadingHTTPServer):
    """A registry with an index of every repository, or of those in ``only``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.only: list[str] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(QuietHandler):
    server: Registry

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self._answer(200, {})
            return
        _, version, *name, kind, tag = self.path.split("/")
        if (version, kind) != ("v2", "manifests") or (
            self.server.only is not None and "/".join(name) not in self.server.only
        ):
            self._answer(404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})
        elif INDEX not in " ".join(self.headers.get_all("Accept", [])):  # an old manifest of one architecture
            self._answer(200, {"schemaVersion": 1})
        else:
            self._answer(200, manifest("/".join(name), tag), {"Content-Type": INDEX})

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value, indent=3).encode()
        self.send_response(status)
        for name, text in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


def manifest(name: str, tag: str) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": [], "annotations": {"name": name, "tag": tag}}


def digest_of(name: str, tag: str) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(manifest(name, tag), indent=3).encode()).hexdigest()}"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    subprocess.run([REPOSITORY / "scripts" / "ensure_debian.sh", "skopeo", "skopeo"], check=True)
    monkeypatch.setattr("pin_base_images._SECONDS", PATIENCE)
    with Registry() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A writable copy of the project's own files."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def images(root: Path) -> dict[str, str | None]:
    """Return every image with a tag in the files, with its digest."""
    found = [match for name in FILES for match in REFERENCE.finditer((root / name).read_text())]
    return {f"{match['name']}:{match['tag']}": match["digest"] for match in found}


@pytest.mark.extended
def test_every_image_with_a_tag_is_pinned_and_keeps_its_tag(registry: Registry, root: Path) -> None:
    before = images(root)
    assert {name.partition(":")[0] for name in before} >= {"python", "tensorflow/serving", "busybox", "grafana/grafana"}
    assert main({"REGISTRY": registry.host}, root) == 0
    after = images(root)
    assert after.keys() == before.keys()
    for image, digest in after.items():
        name, _, tag = image.partition(":")
        assert digest == "@" + digest_of(name if "/" in name else f"library/{name}", tag)


@pytest.mark.extended
@pytest.mark.parametrize("fault", ["has it not", "is not named"])
def test_without_a_digest_that_can_be_believed_nothing_is_written(
    registry: Registry, root: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    registry.only = [] if fault == "has it not" else None
    before = {name: (root / name).read_text() for name in FILES}
    assert main({} if fault == "is not named" else {"REGISTRY": registry.host}, root) == 1
    assert {name: (root / name).read_text() for name in FILES} == before
    reply = capsys.readouterr().err
    assert reply.startswith("pin_base_images: ") and "tensorflow/serving" in reply


def test_stand_ins_have_the_tag_alone() -> None:
    assert stand_ins.tag_of("python:3.11@sha256:" + "0" * 64) == "python:3.11"
    assert stand_ins.tag_of("python:3.11") == "python:3.11"
