"""lightbox.tools.offline.sources in S3: one object that cannot be read does not end a run; S3 that refuses all does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber

from lightbox.base.errors import TooLarge
from lightbox.tools.offline import sources
from lightbox.tools.offline.rows import UNREACHED_AT_MOST, in_order
from lightbox.tools.offline.run import Run
from lightbox.tools.offline.sources import Source, SourceError
from lightbox.tools.offline.storage import READS, S3, at
from lightbox.tools.offline.targets import Target
from support.http_server import serving
from support.picture_sources import write_list, write_shard
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
    assert str(found["c.jpg"]) == "there is no such object"


def test_an_object_that_is_too_large_is_not_read(bucket: Any) -> None:
    for name, size in (("large", 10), ("most", 9)):
        bucket.put_object(Bucket=BUCKET, Key=f"in/{name}.jpg", Body=bytes(size))
    found = dict(map(sources.read, Source(PLACE, most=9).items()))
    assert isinstance(found["large.jpg"], TooLarge)
    assert found["most.jpg"] == bytes(9)


def test_an_object_with_the_path_of_a_member_of_a_shard_is_there_once(bucket: Any, tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "s.tar", {"m.jpg": b"member", "n.jpg": b"n"}).read_bytes()
    for name, content in {"s.tar": shard, "s.tar/m.jpg": b"object", "s.tar/o.jpg": b"o"}.items():
        bucket.put_object(Bucket=BUCKET, Key=f"in/{name}", Body=content)
    source = Source(PLACE)
    assert sorted(map(sources.read, source.items())) == [
        ("s.tar/m.jpg", b"object"),
        ("s.tar/n.jpg", b"n"),
        ("s.tar/o.jpg", b"o"),
    ]
    assert source.problems == ["s.tar/m.jpg: is there again; one has a row"]
    alone = Source(f"{PLACE}/s.tar")
    assert dict(map(sources.read, alone.items())) == {"s.tar/m.jpg": b"member", "s.tar/n.jpg": b"n"}
    assert alone.problems == []


def test_so_is_one_with_the_path_of_a_member_of_a_shard_inside(bucket: Any, tmp_path: Path) -> None:
    shards = {
        "s.tar": write_shard(tmp_path / "s.tar", {"x.tar/m.jpg": b"outer", "x.tar/n.jpg": b"n"}).read_bytes(),
        "s.tar/x.tar": write_shard(tmp_path / "x.tar", {"m.jpg": b"inner"}).read_bytes(),
        "s.tar/y.tar": b"no shard" * 100,
    }
    for name, content in shards.items():
        bucket.put_object(Bucket=BUCKET, Key=f"in/{name}", Body=content)
    source = Source(PLACE)
    assert sorted(map(sources.read, source.items())) == [("s.tar/x.tar/m.jpg", b"inner"), ("s.tar/x.tar/n.jpg", b"n")]
    assert [problem.partition(": ")[0] for problem in source.problems] == ["s.tar/x.tar/m.jpg", "s.tar/y.tar"]


@pytest.mark.parametrize(("name", "total"), [("l.manifest", 2), ("s.tar", None)])
def test_a_list_is_counted_and_a_shard_is_not(bucket: Any, tmp_path: Path, name: str, total: int | None) -> None:
    write_list(tmp_path / "l.manifest", [f"{PLACE}/a.jpg", f"{PLACE}/b.jpg"])
    write_shard(tmp_path / "s.tar", {"a.jpg": b"a", "b.jpg": b"b"})
    bucket.upload_file(f"{tmp_path}/{name}", BUCKET, f"in/{name}")
    source = Source(f"{PLACE}/{name}")
    source._list(lambda batch: None)
    assert source.total == total


@pytest.mark.parametrize(
    ("code", "is_of_one"), [("AccessDenied", True), ("InvalidRequest", True), ("ExpiredToken", False)]
)
def test_a_refusal_is_of_one_object_or_of_all(moto_s3: dict[str, str], code: str, is_of_one: bool) -> None:
    files, name = at(PLACE), "a.jpg"
    assert isinstance(files, S3)
    with Stubber(files._client) as stubbed:
        stubbed.add_client_error("get_object", code, f"Why: arn:aws:s3:::{BUCKET}/in/a.jpg")
        item = (name, lambda: files.read(name, 100))
        if is_of_one:
            assert str(sources.read(item)[1]) == f"{code}: Why: arn:aws:s3:::..."
        else:
            with pytest.raises(SourceError, match=f"{PLACE}/a.jpg: {code}: Why"):
                sources.read(item)


def test_a_denied_listing_is_a_sentence(moto_s3: dict[str, str]) -> None:
    source = Source(PLACE)
    assert isinstance(source._files, S3)
    with Stubber(source._files._client) as stubbed:
        stubbed.add_client_error("list_objects_v2", "AccessDenied", "Why")
        with pytest.raises(SourceError, match=f"{PLACE}/: AccessDenied: Why"):
            list(source.items())


class Bucket:
    """A bucket on a server: objects of 9 bytes, those that break off by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.denied, self.came = names, set[str](), Counter[str]()
        self.over = threading.Event()


class Server(BaseHTTPRequestHandler):
    """S3 with one bucket."""

    def __init__(self, bucket: Bucket, *of: Any) -> None:
        self._bucket = bucket
        super().__init__(*of)

    def do_HEAD(self) -> None:
        self._begin(200, 9)

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self._bucket.came[name] += 1
        if "list-type" in name:
            keys = "".join(f"<Contents><Key>in/{name}</Key></Contents>" for name in self._bucket.names)
            self._write(200, f"<ListBucketResult>{keys}</ListBucketResult>")
            return
        if name == "replaced.tar":
            self._write(412, "<Error><Code>PreconditionFailed</Code></Error>")
            return
        if name in self._bucket.denied:
            self._write(403, f"<Error><Code>AccessDenied</Code><Message>No {BUCKET}/in/{name}</Message></Error>")
            return
        self._begin(200, 9)
        breaks_off = name.startswith(("cut", "stalls")) or (name == "again.jpg" and self._bucket.came[name] == 1)
        self.wfile.write(bytes(1 if breaks_off else 9))
        if name == "stalls.jpg":
            self._bucket.over.wait()

    def _write(self, status: int, body: str) -> None:
        self._begin(status, len(body))
        self.wfile.write(body.encode())

    def _begin(self, status: int, size: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        self.send_header("ETag", '"a"')
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


def test_an_object_that_breaks_off_is_read_again_and_then_an_error_of_its_own(
    moto_s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Bucket(["again.jpg", "cut.jpg", "cut.tar", "replaced.tar", "stalls.jpg", "whole.jpg"])
    with serving(partial(Server, broken)) as url:  # type: ignore[arg-type]
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        source = Source(PLACE)
        assert isinstance(source._files, S3)
        source._files._client = boto3.client("s3", config=Config(read_timeout=0.2))
        found = dict(map(sources.read, source.items()))
        broken.over.set()
    assert [name for name, content in found.items() if content == bytes(9)] == ["again.jpg", "whole.jpg"]
    for name in ("cut.jpg", "stalls.jpg"):
        assert str(found[name]) == "cannot be read to the end"
        assert broken.came[name] == READS
    assert [problem.partition(": the download failed: ")[0] for problem in source.problems] == [
        f"{name}: cannot be read after 0 pictures" for name in ("cut.tar", "replaced.tar")
    ]


class Sizes:
    """A model that answers the length of each picture."""

    name, version, engine, reads = "cats", 3, None, False

    def responses(self, pictures: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        return ((path, content if isinstance(content, Exception) else len(content)) for path, content in pictures)


class Slow(Sizes):
    """One whose answers come after those of pictures that cannot be read, as from an endpoint."""

    def responses(self, pictures: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        return iter(sorted(super().responses(pictures), key=lambda answer: isinstance(answer[1], int)))


def test_denied_pictures_do_not_end_a_run_while_others_are_in_progress(
    moto_s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [f"{number:03}.jpg" for number in range(2 * UNREACHED_AT_MOST)]
    denying = Bucket(names)
    denying.denied = set(names[1:-1])
    with serving(partial(Server, denying)) as url:  # type: ignore[arg-type]
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        with Target(f"{tmp_path}/rows.jsonl/", Slow()) as target:
            assert Run(Source(PLACE), target, Slow(), threading.Event()).run() == 1
    with Target(f"{tmp_path}/rows.jsonl/", Slow()) as target:
        assert target.done == set(names)


def test_a_run_ends_where_s3_denies_all_and_each_start_goes_further(
    moto_s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{number:03}.jpg" for number in range(9 * UNREACHED_AT_MOST)]

    def run(again: bool = False) -> tuple[int, int, str]:
        """Return the exit code, how many paths have a row, and what is printed."""
        with Target(f"{tmp_path}/rows.jsonl/", Sizes(), again=again) as target:
            code = Run(Source(PLACE), target, Sizes(), threading.Event()).run()
        with Target(f"{tmp_path}/rows.jsonl/", Sizes()) as target:
            return code, len(target.done), capsys.readouterr().err

    denying = Bucket(names)
    with serving(partial(Server, denying)) as url:  # type: ignore[arg-type]
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        denying.denied = set(names[:-1])
        for count in (1, 2, 4, 8):
            code, done, said = run()
            assert (code, done) == (1, count * UNREACHED_AT_MOST)
        last = f"{names[8 * UNREACHED_AT_MOST - 1]}: AccessDenied: No ..."
        stopped = f"S3 denies the first {4 * UNREACHED_AT_MOST} pictures (--again repeats them); the last: {last}"
        assert f"stopped: {stopped}. The same command goes on from here." in said
        assert run()[:2] == (1, len(names))
        assert run()[:2] == (0, len(names))
        denying.denied = set(names[5:])
        code, done, said = run(again=True)
    assert (code, done) == (1, len(names)), "it can read one: the others are denied for reasons of their own"
    assert f"{len(names) - 6} with an error: {names[5]} and others: AccessDenied: No ..." in said
