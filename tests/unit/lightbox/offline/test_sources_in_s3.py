"""lightbox.offline.sources in S3: one object that cannot be read does not end a run; S3 that refuses all does."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from botocore.stub import Stubber

from lightbox.core.errors import TooLarge
from lightbox.offline import sources
from lightbox.offline.files import S3, split
from lightbox.offline.rows import in_order
from lightbox.offline.sources import Source, SourceError
from support.http_server import serving
from support.s3_server import BUCKET, client

PLACE = f"s3://{BUCKET}/in"


@pytest.fixture
def bucket(moto_s3: dict[str, str]) -> Iterator[Any]:
    """A client; the bucket is empty afterwards."""
    found = client(moto_s3)
    yield found
    for entry in found.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        found.delete_object(Bucket=BUCKET, Key=entry["Key"])


def test_an_object_that_is_gone_or_archived_is_an_error_of_its_own(bucket: Any) -> None:
    for name, more in (("a", {}), ("b", {"StorageClass": "GLACIER"}), ("c", {}), ("d", {})):
        bucket.put_object(Bucket=BUCKET, Key=f"in/{name}.jpg", Body=b"x", **more)
    items = Source(PLACE).items()
    first = next(items)
    bucket.delete_object(Bucket=BUCKET, Key="in/c.jpg")
    found = dict(in_order(sources.read, [first, *items], threads=2))
    assert (found["a.jpg"], found["d.jpg"]) == (b"x", b"x")
    assert "InvalidObjectState" in str(found["b.jpg"])
    assert str(found["c.jpg"]) == f"{PLACE}/c.jpg: there is no such object"


def test_an_object_that_is_too_large_is_not_read(bucket: Any) -> None:
    for name, size in (("large", 10), ("most", 9)):
        bucket.put_object(Bucket=BUCKET, Key=f"in/{name}.jpg", Body=bytes(size))
    found = dict(map(sources.read, Source(PLACE, most=9).items()))
    assert isinstance(found["large.jpg"], TooLarge)
    assert found["most.jpg"] == bytes(9)


@pytest.mark.parametrize(
    ("code", "is_of_one"), [("AccessDenied", True), ("InvalidRequest", True), ("ExpiredToken", False)]
)
def test_a_refusal_is_of_one_object_or_of_all(moto_s3: dict[str, str], code: str, is_of_one: bool) -> None:
    files, name = split(f"{PLACE}/a.jpg")
    assert isinstance(files, S3)
    with Stubber(files._client) as stubbed:
        stubbed.add_client_error("get_object", code, "Why")
        said = f"{PLACE}/a.jpg: {code}: Why"
        item = (name, lambda: files.read(name, 100))
        if is_of_one:
            assert str(sources.read(item)[1]) == said
        else:
            with pytest.raises(SourceError, match=said):
                sources.read(item)


def test_a_denied_listing_is_a_sentence(moto_s3: dict[str, str]) -> None:
    source = Source(PLACE)
    assert isinstance(source._files, S3)
    with Stubber(source._files._client) as stubbed:
        stubbed.add_client_error("list_objects_v2", "AccessDenied", "Why")
        with pytest.raises(SourceError, match=f"{PLACE}/: AccessDenied: Why"):
            list(source.items())


def test_an_object_whose_connection_closes_early_is_an_error_of_its_own(
    moto_s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class CutOff(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "9")
            self.end_headers()
            self.wfile.write(b"x")

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    with serving(CutOff) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        files, name = split(f"{PLACE}/a.jpg")
        path, error = sources.read((name, lambda: files.read(name, 100)))
    assert path == "a.jpg" and str(error).startswith(f"{PLACE}/a.jpg: the connection closed before the end: ")
