"""A fake S3 with one bucket, with the part of the API that boto3 needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

from support import http_server
from support.http_server import QuietHandler

OBJECTS = {
    "team/code/inference.py": "import helper\ndef handler(data, context): return helper.ANSWER, 'text/plain'\n",
    "team/code/lib/helper.py": "ANSWER = 'from S3'\n",
    "team/code/../../../escaped.py": "",
    "other/inference.py": "def handler(data, context): return 'the other one', 'text/plain'\n",
}


class Bucket(QuietHandler):
    """Lists and returns OBJECTS of a bucket named models."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.rstrip("/") == "/models":
            prefix = parse_qs(url.query)["prefix"][0]
            keys = [key for key in OBJECTS if key.startswith(prefix)]
            entries = "".join(f"<Contents><Key>{key}</Key><Size>{len(OBJECTS[key])}</Size></Contents>" for key in keys)
            self._answer(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
        elif (key := url.path.removeprefix("/models/")) in OBJECTS:
            self._answer(200, OBJECTS[key].encode())
        else:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code><Message>there is none</Message></Error>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def serving(host: str = "127.0.0.1") -> Iterator[dict[str, str]]:
    """Serve OBJECTS at an address of this machine; yield the environment that points boto3 to it."""
    with http_server.serving(Bucket, host) as url:
        yield {
            "AWS_ENDPOINT_URL_S3": url,
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        }


def universal(bucket: str = "models", prefix: str = "team/code/") -> dict[str, str]:
    """Return AWS's variables for code from a bucket."""
    return {"SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": bucket, "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": prefix}
