"""Code for all models from S3, played by a small server that speaks as much of it as boto3 needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lightbox.processes.universal_code import name_of
from support.models import copy_golden
from support.stack import Stack, running

OBJECTS = {
    "team/code/inference.py": "import helper\ndef handler(data, context): return helper.ANSWER, 'text/plain'\n",
    "team/code/lib/helper.py": "ANSWER = 'from S3'\n",
    "team/code/../../../escaped.py": "",
    "other/inference.py": "def handler(data, context): return 'the other one', 'text/plain'\n",
}


class Bucket(BaseHTTPRequestHandler):
    """Lists and gives OBJECTS of a bucket named models."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.rstrip("/") == "/models":
            prefix = parse_qs(url.query)["prefix"][0]
            keys = [key for key in OBJECTS if key.startswith(prefix)]
            entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
            self._answer(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
        elif (key := url.path.removeprefix("/models/")) in OBJECTS:
            self._answer(200, OBJECTS[key].encode())
        else:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code><Message>there is none</Message></Error>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None: ...

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        }
        server.shutdown()


def universal(bucket: str, prefix: str) -> dict[str, str]:
    return {"SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": bucket, "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": prefix}


@contextmanager
def served(tmp: Path, environ: dict[str, str]) -> Iterator[Stack]:
    copy_golden("half_plus_two", tmp / "models" / "half_plus_two")
    with running(tmp / "models", tmp / "run", **environ) as stack:
        yield stack


def test_one_model_uses_it(tmp_path: Path, s3: dict[str, str]) -> None:
    with served(tmp_path, s3 | universal("models", "team/code/")) as stack:
        assert stack.invoke(b"1").text == "from S3"
    assert not list(tmp_path.rglob("escaped.py"))


def test_models_that_are_loaded_later_use_it(tmp_path: Path, s3: dict[str, str]) -> None:
    with served(tmp_path, s3 | universal("models", "team/code") | {"SAGEMAKER_MULTI_MODEL": "true"}) as stack:
        folder = tmp_path / "models" / "half_plus_two"
        loaded = stack.invoke(b'{"model_name": "a", "url": "%s"}' % str(folder).encode(), "/models")
        assert loaded.status_code == 200, loaded.text
        assert stack.invoke(b"1", "/models/a/invoke").text == "from S3"


def test_code_in_the_model_directory_wins(tmp_path: Path, s3: dict[str, str]) -> None:
    code = tmp_path / "models" / "code"
    code.mkdir(parents=True)
    (code / "inference.py").write_text("def handler(data, context): return 'from here', 'text/plain'\n")
    with served(tmp_path, s3 | universal("models", "team/code/")) as stack:
        assert stack.invoke(b"1").text == "from here"


@pytest.mark.parametrize(("bucket", "prefix"), [("models", "nowhere/"), ("none", "team/code/")])
def test_what_cannot_be_had_refuses_the_start(tmp_path: Path, s3: dict[str, str], bucket: str, prefix: str) -> None:
    copy_golden("half_plus_two", tmp_path / "models" / "half_plus_two")
    with Stack(tmp_path / "models", tmp_path / "run", s3 | universal(bucket, prefix)) as stack:
        assert stack.wait() == 1
        assert f"s3://{bucket}/{prefix}" in stack.log
        assert "Traceback" not in stack.log


@pytest.mark.parametrize(
    ("key", "prefix", "name"),
    [
        ("team/code/inference.py", "team/code/", "inference.py"),
        ("team/code/lib/a.py", "team/code", "lib/a.py"),
        ("team/inference.py", "team/inf", "inference.py"),
        ("inference.py", "inference.py", "inference.py"),
    ],
)
def test_names_begin_after_the_prefixs_folder(key: str, prefix: str, name: str) -> None:
    assert name_of(key, prefix) == name
