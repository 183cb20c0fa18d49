"""lightbox.tools.offline.sources: each kind of source, and the errors for broken and changing sources."""

from __future__ import annotations

import errno
import gzip
import os
import pickle
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from lightbox.tools.offline import sources
from lightbox.tools.offline.rows import in_order
from lightbox.tools.offline.sources import Source, SourceError
from lightbox.tools.offline.storage import AwsError, Folder, at
from support.parameters import each
from support.patience import poll
from support.picture_sources import write_folder, write_list, write_shard, write_table

PICTURES = {f"{number}.jpg": b"picture %d" % number * 50 for number in range(8)}


def read(source: Source) -> dict[str, bytes | str]:
    """Read a source; return the content of each picture by path, or the error if it is unreadable."""
    found = [
        (path, str(content) if isinstance(content, Exception) else content)
        for path, content in in_order(sources.read, source.items(), threads=2)
    ]
    assert len(dict(found)) == len(found), "a picture came twice"
    return dict(found)


def is_counted(source: Source, total: int) -> bool:
    return any(source.total == total for _ in poll())


def test_a_folder_has_pictures_shards_and_tables(tmp_path: Path) -> None:
    write_folder(
        tmp_path, {"b/c/x.PNG": b"x", "a.jpg": b"a", ".hidden.jpg": b"h", ".git/y.jpg": b"y", "notes.txt": b"n"}
    )
    write_folder(tmp_path, {"out/rows.jsonl": b"{}", "list.manifest": b'{"path": "a.jpg"}'})
    write_shard(tmp_path / "s.tar", {"m.jpg": b"m", "._m.jpg": b"forks"})
    write_table(tmp_path / "t.parquet", {"p": b"p", "q": b"q"})
    source = Source(str(tmp_path), skip=lambda name: name.startswith("out/"))
    expected = {"a.jpg": b"a", "b/c/x.PNG": b"x", "s.tar/m.jpg": b"m", "t.parquet/0": b"p", "t.parquet/1": b"q"}
    assert read(source) == expected
    assert is_counted(source, len(expected))
    assert (source.others, source.problems) == (2, [])


def test_the_listing_runs_ahead_and_counts(tmp_path: Path) -> None:
    write_folder(tmp_path, {f"{number:04}.jpg": b"x" for number in range(2 * sources.NAMES + 1)})
    source = Source(str(tmp_path))
    items = source.items()
    assert next(items)[0] == "0000.jpg"
    assert is_counted(source, 2 * sources.NAMES + 1)
    assert [path for path, _ in items] == [f"{number:04}.jpg" for number in range(1, 2 * sources.NAMES + 1)]


def test_a_failure_of_the_listing_reaches_the_reader(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a.jpg": b"a"})

    def skip(name: str) -> bool:
        raise ValueError(name)

    with pytest.raises(ValueError, match=r"a\.jpg"):
        read(Source(str(tmp_path), skip=skip))


def test_names_that_do_not_fit_into_memory_end_the_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(names: list[str]) -> bytes:
        raise MemoryError

    monkeypatch.setattr(sources, "_packed", packed)
    with pytest.raises(MemoryError):
        read(Source(str(write_folder(tmp_path, {"a.jpg": b"a"}))))


def test_items_are_read_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_folder(tmp_path, {"folder/a.jpg": b"a", "folder/b.jpg": b"b"}))
    write_shard(tmp_path / "folder" / "s.tar", {"m.jpg": b"m"})
    write_list(tmp_path / "list.jsonl", ["folder/a.jpg", str(tmp_path / "folder" / "b.jpg")])
    found = [Source(place, skip=lambda name: False) for place in ("folder", "list.jsonl")]
    sent = pickle.dumps([item for source in found for item in source.items()])
    monkeypatch.chdir("/")
    program = "import pickle, sys; from lightbox.tools.offline.sources import read; "
    program += "print([read(item)[1] for item in pickle.load(sys.stdin.buffer)])"
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True)
    assert done.stdout.decode() == "[b'a', b'b', b'm', b'a', b'b']\n"


@pytest.mark.parametrize("compressed", [False, True])
def test_a_shard_alone(tmp_path: Path, compressed: bool) -> None:
    shard = write_shard(tmp_path / "train-00.tar", PICTURES)
    if compressed:
        shard.write_bytes(gzip.compress(shard.read_bytes()))
    assert read(Source(str(shard))) == {f"train-00.tar/{name}": content for name, content in PICTURES.items()}


@pytest.mark.parametrize("nested", [False, True])
def test_a_table_alone(tmp_path: Path, nested: bool) -> None:
    source = Source(str(write_table(tmp_path / "t.parquet", PICTURES, nested)))
    assert read(source) == {f"t.parquet/{row}": content for row, content in enumerate(PICTURES.values())}
    assert is_counted(source, len(PICTURES))


@each("kind", ["binary", "large_binary", "binary_view", "fixed"])
def test_a_column_of_each_type_of_bytes(tmp_path: Path, kind: str) -> None:
    import pyarrow
    import pyarrow.parquet

    of_bytes = pyarrow.binary(1) if kind == "fixed" else getattr(pyarrow, kind)()
    column = pyarrow.array([b"a", b"b"], of_bytes)
    for name, image in (("flat", column), ("nested", pyarrow.StructArray.from_arrays([column], ["bytes"]))):
        pyarrow.parquet.write_table(pyarrow.table({"image": image}), tmp_path / f"{name}.parquet")
        source = Source(str(tmp_path / f"{name}.parquet"))
        assert read(source) == {f"{name}.parquet/0": b"a", f"{name}.parquet/1": b"b"}, list(source.problems)


def test_a_table_of_several_columns_of_bytes_needs_a_name(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    file = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"image": [b"a", None], "mask": [b"m", b"n"]}), file)
    assert read(Source(str(file), column="image")) == {"t.parquet/0": b"a", "t.parquet/1": b""}
    for column, words in (
        (None, "one column of bytes, or its name with --column; the table has image (binary)"),
        ("no", "expected a column of bytes 'no'; the table has image"),
    ):
        source = Source(str(file), column)
        assert read(source) == {}
        (problem,) = source.problems
        assert problem.startswith("t.parquet: cannot be read after 0 pictures: ") and words in problem


@pytest.mark.parametrize("key", ["source-ref", "path"])
def test_a_list_names_its_pictures(tmp_path: Path, key: str) -> None:
    write_folder(tmp_path, {"a.jpg": b"a", "more/b.jpg": b"b"})
    places = ["a.jpg", f"{tmp_path}/more/b.jpg", "gone.jpg", "a.jpg"]
    listed = write_list(tmp_path / "l.manifest", places, key)
    listed.write_text(listed.read_text() + 'no line\n{"else": 1}\n')
    source = Source(str(listed))
    found = read(source)
    assert found.pop("gone.jpg") == f"[Errno 2] No such file or directory: '{tmp_path}/gone.jpg'"
    assert found == {"a.jpg": b"a", f"{tmp_path}/more/b.jpg": b"b"}
    assert [problem.partition(", got")[0] for problem in source.problems] == [
        f'l.manifest: line {line}: expected {{"source-ref": "s3://..."}} or {{"path": "..."}}' for line in (5, 6)
    ]


def test_a_shard_that_is_cut_anywhere_gives_what_is_whole_and_a_sentence(tmp_path: Path) -> None:
    """tarfile alone treats a truncated header as the end of the archive."""
    whole = write_shard(tmp_path / "whole.tar", PICTURES).read_bytes()
    last = whole.rstrip(b"\0")
    for size in range(0, len(last), 97):
        (tmp_path / "s.tar").write_bytes(whole[:size])
        source = Source(str(tmp_path / "s.tar"))
        found = read(source)
        assert found == {f"s.tar/{name}": PICTURES[name] for name in list(PICTURES)[: len(found)]}
        (problem,) = source.problems
        assert problem.startswith(f"s.tar: cannot be read after {len(found)} pictures: "), size


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("between", [b"", bytes(512), bytes(51200)])
def test_joined_shards_are_read_to_the_end(tmp_path: Path, between: bytes, compressed: bool) -> None:
    """As ``cat`` joins them; so is one with a lone block of zeros."""
    parts = [write_shard(tmp_path / "parts" / name, {f"{name}.jpg": name.encode()}).read_bytes() for name in "abc"]
    pieces = [parts[0].rstrip(b"\0").ljust(2048, b"\0"), between, parts[1], parts[2]]
    (tmp_path / "s.tar").write_bytes(b"".join(gzip.compress(piece) if compressed else piece for piece in pieces))
    source = Source(str(tmp_path / "s.tar"))
    assert read(source) == {f"s.tar/{name}.jpg": name.encode() for name in "abc"}
    assert not source.problems
    assert compressed or is_counted(source, 3)


@pytest.mark.parametrize("left", [0, 600, 2000])
def test_what_follows_the_end_of_a_shard_and_is_none_is_a_sentence(tmp_path: Path, left: int) -> None:
    """A header of zeros looks like an end."""
    content = write_shard(tmp_path / "s.tar", {"a.jpg": b"a", "b.jpg": b"b" * 3000}).read_bytes()
    at = content.index(b"b.jpg")
    (tmp_path / "s.tar").write_bytes(content[:at] + bytes(512) + content[at + 512 :][left:])
    source = Source(str(tmp_path))
    assert read(source) == {"s.tar/a.jpg": b"a"}
    (problem,) = source.problems
    assert problem == "s.tar: cannot be read after 1 pictures: the shard has a number that cannot be read"


def test_a_shard_with_a_damaged_header_is_a_sentence(tmp_path: Path) -> None:
    content = bytearray(write_shard(tmp_path / "s.tar", PICTURES).read_bytes())
    at = content.index(b"4.jpg")
    content[at : at + 5] = b"4.bmp"
    (tmp_path / "s.tar").write_bytes(content)
    source = Source(str(tmp_path))
    assert len(read(source)) == 4
    expected = "s.tar: cannot be read after 4 pictures: the shard is not a tar archive, or is damaged"
    assert source.problems == [expected]


def test_links_and_a_name_that_is_there_twice_are_reported(tmp_path: Path) -> None:
    write_shard(tmp_path / "s.tar", {"a.jpg": b"a"})
    with tarfile.open(tmp_path / "s.tar", "a") as shard:
        for name, kind in (("b.jpg", tarfile.LNKTYPE), ("c.jpg", tarfile.SYMTYPE), ("a.jpg", tarfile.REGTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a.jpg" if kind != tarfile.REGTYPE else ""
            shard.addfile(member)
    source = Source(str(tmp_path / "s.tar"))
    link = "a link in a shard; pack it with tar --dereference --hard-dereference"
    assert read(source) == {"s.tar/a.jpg": b"a", "s.tar/b.jpg": link, "s.tar/c.jpg": link}
    assert source.problems == ["s.tar/a.jpg: is there again; one has a row"]


def test_what_no_folder_gives_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, {"in/a.jpg": b"a", "in/locked/b.jpg": b"b", "other/c.jpg": b"c"})
    (tmp_path / "in" / "link").symlink_to(tmp_path / "other")
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    source = Source(str(tmp_path / "in"))
    assert read(source) == {"a.jpg": b"a"}
    assert source.others == 1, "the link"
    assert source.problems == [f"{tmp_path}/in/locked: cannot be read: Permission denied"]


def test_one_picture_that_cannot_be_read_does_not_end_a_run(tmp_path: Path) -> None:
    def huge() -> bytes:
        raise MemoryError

    path, content = sources.read(("huge.jpg", huge))
    assert path == "huge.jpg" and isinstance(content, MemoryError)
    write_folder(tmp_path, {"a.jpg": b"a"})
    listed = write_list(tmp_path / "l.jsonl", ["nul\0.jpg", "s3://my bucket/a.jpg", "s3://bucket", "a.jpg"])
    source = Source(str(listed), outside=True)
    assert read(source) == {"nul\0.jpg": "embedded null byte", "a.jpg": b"a"}
    malformed, nameless = source.problems
    assert malformed.startswith("l.jsonl: line 2: s3://my bucket/: Parameter validation failed: Invalid bucket name")
    assert nameless == "l.jsonl: line 3: s3://bucket names no object"


def test_a_picture_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    most, size = bytes(1 << 20), 64 << 20
    refused = "the request body is larger than LIGHTBOX_MAX_BODY_MB=1 MiB"
    write_folder(tmp_path / "in", {"most.jpg": most, "large.jpg": b""})
    os.truncate(tmp_path / "in" / "large.jpg", size)
    write_shard(tmp_path / "in" / "s.tar", {"most.jpg": most, "large.jpg": bytes(size), "next.jpg": b"x"})
    write_list(tmp_path / "l.jsonl", ["in/large.jpg"])
    write_table(tmp_path / "t.parquet", {"most": most, "large": most + b"x"})
    tracemalloc.start()
    assert read(Source(f"{tmp_path}/in", most=len(most))) == {
        "large.jpg": refused,
        "most.jpg": most,
        "s.tar/most.jpg": most,
        "s.tar/large.jpg": refused,
        "s.tar/next.jpg": b"x",
    }
    assert read(Source(f"{tmp_path}/l.jsonl", most=len(most))) == {"in/large.jpg": refused}
    assert tracemalloc.get_traced_memory()[1] < size // 2
    tracemalloc.stop()
    assert read(Source(f"{tmp_path}/t.parquet", most=len(most))) == {"t.parquet/0": most, "t.parquet/1": refused}


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_memory_for_a_table_depends_on_its_row_groups(tmp_path: Path, compression: str) -> None:
    import pyarrow
    import pyarrow.parquet

    groups, size = 24, 1 << 20
    table = pyarrow.table({"image": [os.urandom(size) for _ in range(groups)]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=1, compression=compression)
    del table
    tracemalloc.start()
    before, most = pyarrow.total_allocated_bytes(), 0
    for item in Source(str(tmp_path / "t.parquet")).items():
        assert len(sources.read(item)[1]) == size  # type: ignore[arg-type]
        most = max(most, pyarrow.total_allocated_bytes() - before)
    most += tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < groups * size // 2


def test_a_bucket_of_a_list_has_one_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Bucket(Folder):
        def __init__(self, place: str) -> None:
            made.append(place)
            super().__init__(tmp_path)

    monkeypatch.setattr(sources, "at", lambda place, *more: Bucket(place) if "://" in place else at(place, *more))
    write_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    listed = write_list(tmp_path / "l.jsonl", ["s3://x/a/1.jpg", "s3://x/b/2.jpg", "s3://y/b/2.jpg"])
    assert list(read(Source(str(listed), outside=True)).values()) == [b"1", b"2", b"2"]
    assert made == ["s3://x", "s3://y"]


def test_other_files_are_read_after_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"no shard" * 100)
    (tmp_path / "b.parquet").write_bytes(b"no table" * 100)
    write_shard(tmp_path / "c.tar", PICTURES)
    source = Source(str(tmp_path))
    assert len(read(source)) == len(PICTURES)
    assert [problem.partition(":")[0] for problem in source.problems] == ["a.tar", "b.parquet"]
    assert source.total is None


def test_a_source_that_changes_while_it_is_read(tmp_path: Path) -> None:
    write_folder(tmp_path, {f"{number:03}.jpg": b"x" for number in range(200)})
    found = in_order(sources.read, Source(str(tmp_path)).items(), threads=2)
    first = next(found)
    (tmp_path / "199.jpg").unlink()
    (tmp_path / "zzz.jpg").write_bytes(b"late: it has been listed")
    rest = dict(found)
    assert isinstance(rest["199.jpg"], FileNotFoundError)
    assert len(rest) == 199 and first[0] == "000.jpg"


def test_a_name_that_is_no_text_has_one_that_is(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.jpg")).write_bytes(b"x")
    assert read(Source(str(tmp_path))) == {"\\xff.jpg": b"x"}


@pytest.mark.parametrize("ending", [".jpg", ".tar"])
def test_two_names_that_are_one_as_text_have_one_row(tmp_path: Path, ending: str) -> None:
    for name in (os.fsdecode(b"\xff"), "\\xff", "\\xfe"):
        write_shard(tmp_path / f"{name}{ending}", {"a.jpg": name.encode("utf-8", "surrogateescape")})
    source = Source(str(tmp_path))
    assert [path[:4] for path in read(source)] == ["\\xfe", "\\xff"]
    assert source.problems == [f"\\xff{ending}: is there again; one has a row"]


def test_a_picture_is_a_source_and_one_of_another_format_has_a_row(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.HEIC", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    assert read(Source(str(tmp_path))) == {"a.jpg": b"a.jpg", "b.HEIC": b"b.HEIC"}
    assert read(Source(f"{tmp_path}/a.jpg")) == {"a.jpg": b"a.jpg"}


def test_what_is_no_source_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_bytes(b"")
    for place, words in (
        ("nowhere", "there is no such folder"),
        ("s.tar", "there is no such file"),
        ("a.zip", "expected a folder, a picture, or a file that ends in .tar, .parquet, .jsonl, .manifest"),
        ("empty", "holds no pictures; 1 file of other kinds"),
    ):
        with pytest.raises(SourceError) as caught:
            read(Source(f"{tmp_path}/{place}"))
        assert str(caught.value) == f"{tmp_path}/{place}: {words}"


@pytest.mark.parametrize("place", ["s3://my bucket/a.tar", "s3://my bucket/photos"])
def test_a_malformed_bucket_is_a_sentence(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(AwsError, match=r'^s3://my bucket/(photos)?: .*Invalid bucket name "my bucket"'):
        Source(place)


def test_a_pipe_is_an_error_of_its_own(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.png")
    (tmp_path / "a.png").write_bytes(b"a")
    found = read(Source(str(tmp_path)))
    assert found["a.png"] == b"a"
    assert "got a pipe" in str(found["b.png"])
