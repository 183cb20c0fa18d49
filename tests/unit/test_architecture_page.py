"""docs/architecture.md names files that exist, and the hops that a request really takes."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from types import FrameType
from typing import Any

import grpc
import pytest
from flask import Flask
from PIL import Image

from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec
from lightbox.transports.grpc import GrpcTransport
from support.fakes import fake_app, mean_model
from tfs_wire.messages import predict_pb2, types_pb2

REPOSITORY = Path(__file__).parents[2]
SIDECAR = REPOSITORY / "container" / "lightbox"
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
MOST_HOPS, MOST_FILES = 14, 25
"""What one JPEG may cost a reader who follows it through the code."""


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, f"docs/architecture.md: there is no section {title!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def hops() -> list[tuple[str, str]]:
    """Return file and function of the hops in the sidecar after gunicorn has read the request."""
    found = [re.findall(r"`([^`]+)`", where) for _, where, _ in rows(section("The way of a request"))[1:]]
    named = [(names[0], names[1]) for names in found if len(names) == 2 and names[0].startswith("container/lightbox")]
    return [(file, function) for file, function in named if not file.startswith("container/lightbox/processes")]


def listed_files() -> list[str]:
    """Return the files that the page says take part."""
    text = section("The way of a request").partition("The files of the sidecar that take part:")[2].lstrip()
    return re.findall(r"`([^`]+\.py)`", text.partition("\n\n")[0])


class _KnownSignature(GrpcTransport):
    """Asks a server for predictions alone."""

    def signature(self, *_: Any) -> SignatureSpec:
        return mean_model(side=8)


@pytest.fixture
def transport(tmp_path: Path) -> Iterator[GrpcTransport]:
    """A transport to a gRPC server that gives every request the same prediction."""
    response = predict_pb2.PredictResponse()
    mean = response.outputs["mean"]
    mean.dtype = types_pb2.DT_FLOAT
    mean.tensor_shape.dim.add(size=1)
    mean.tensor_shape.dim.add(size=3)
    mean.float_val.extend([99, 99, 99])
    predict = grpc.unary_unary_rpc_method_handler(lambda _, __: response.SerializeToString())
    service = grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService", {"Predict": predict})
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[service])
    server.add_insecure_port(f"unix:{tmp_path}/m.sock")
    server.start()
    yield (found := _KnownSignature(f"unix:{tmp_path}/m.sock"))
    found.close()
    server.stop(0).wait()


def post(app: Flask, body: bytes) -> tuple[str, bytes]:
    """Post a JPEG to the app as gunicorn does: through the edge, with nothing of a test client between."""
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/invocations",
        "CONTENT_TYPE": "application/x-image",
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "8080",  # unopened
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
    }

    def start_response(status: str, *_: Any) -> Callable[[bytes], object]:
        statuses.append(status)
        return len  # nobody writes with it

    body = b"".join(app.wsgi_app(environ, start_response))
    return statuses[0], body


@pytest.fixture
def calls(transport: GrpcTransport, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """File and function of each call in the sidecar that the second of two JPEGs takes, resized by Pillow."""
    monkeypatch.setattr("lightbox.images.native_resize.load", lambda: None)  # it depends on the CPU
    app = fake_app(transport, {"mean": ModelOptions()})
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (99, 99, 99)).save(buffer, "jpeg")
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{SIDECAR}/"):
            entered.append((str(Path(code.co_filename).relative_to(REPOSITORY)), code.co_qualname))

    post(app, buffer.getvalue())
    sys.setprofile(note)
    try:
        found = post(app, buffer.getvalue())
    finally:
        sys.setprofile(None)
    assert found == ("200 OK", b'{"predictions":[[99.0,99.0,99.0]]}')
    return entered


def test_a_jpeg_takes_the_hops_of_the_page_in_their_order(calls: list[tuple[str, str]]) -> None:
    at = -1
    assert len(hops()) > 8
    for hop in hops():
        assert hop in calls[at + 1 :], f"{hop} is not entered after the hop before it"
        at = calls.index(hop, at + 1)


def test_a_jpeg_passes_the_files_that_the_page_lists(calls: list[tuple[str, str]]) -> None:
    assert sorted({file for file, _ in calls}) == sorted(listed_files())


def test_the_way_of_a_jpeg_is_short() -> None:
    assert len(rows(section("The way of a request"))) - 1 <= MOST_HOPS
    assert len(listed_files()) <= MOST_FILES


def test_every_file_that_the_page_names_exists() -> None:
    names = {name for name in re.findall(r"`([\w./]+)`", PAGE) if "/" in name and not name.startswith(("/", "."))}
    assert len(names) > 40
    assert [name for name in sorted(names) if not (REPOSITORY / name).exists()] == []


def test_every_function_beside_a_file_is_in_it() -> None:
    pairs = re.findall(r"`(container/[\w/]+\.py)` `([\w.]+)`", PAGE)
    assert len(pairs) > 10
    for file, function in pairs:
        source = (REPOSITORY / file).read_text()
        missing = [name for name in function.split(".") if not re.search(rf"^ *(def|class) {name}\b", source, re.M)]
        assert not missing, f"{file} has no {function}"


def test_every_setting_that_the_page_names_is_one() -> None:
    known = (REPOSITORY / "docs" / "settings.md").read_text()
    for name in re.findall(r"`((?:LIGHTBOX|SAGEMAKER)_[A-Z_]+)`", PAGE):
        assert f"`{name}`" in known, name


def test_the_page_lists_every_decision_by_its_title() -> None:
    decisions = {
        path.name: path.read_text().partition("\n")[0].removeprefix("# ")
        for path in (REPOSITORY / "docs" / "adr").glob("*.md")
    }
    listed = re.findall(r"\[(\d{3} [^\]]+)\]\(adr/([^)]+)\)", section("Decisions"))
    assert sorted((file, title) for title, file in listed) == sorted(decisions.items())
