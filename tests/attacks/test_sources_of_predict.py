"""Hostile files in SOURCE of lightbox predict: each costs its own row, and the others are answered."""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from lightbox.tools.offline import sources
from lightbox.tools.offline.rows import in_order
from lightbox.tools.offline.sources import Source
from support.picture_sources import write_folder, write_list

MB = 1 << 20
LIMIT = 4 * MB
"""Bytes of a picture."""


def read(source: Source) -> dict[str, bytes | str]:
    items = map(sources.read, source.items())
    return {path: str(content) if isinstance(content, Exception) else content for path, content in items}


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def shard(*parts: bytes) -> bytes:
    """Return a shard that begins with a picture."""
    return b"".join([header("good.png", 512), b"g" * 512, *parts, bytes(1024)])


def write_cells(file: Path, use_dictionary: bool) -> None:
    """Write a table of a few kB: the same large cells in pages that compress well."""
    cells = pyarrow.array([bytes(LIMIT)] * 20, pyarrow.binary())
    table = pyarrow.table({"image": cells})
    pages = {"data_page_size": 1 << 30, "dictionary_pagesize_limit": 1 << 30}
    pyarrow.parquet.write_table(table, file, use_dictionary=use_dictionary, compression="zstd", **pages)


@pytest.mark.extended
def test_a_bad_source_ends_no_run_and_takes_no_memory(tmp_path: Path) -> None:
    long_name = header("x", 512, tarfile.GNUTYPE_LONGNAME) + b"x" * 511 + b"\0"
    shards = {
        "chain": shard(long_name * 3000, header("late.png", 0)),
        "endless": shard(header("e.png", 8 << 30), b"e"),
        "far": shard(header("f.txt", 8 << 30), b"f"),
        "name": gzip.compress(shard(header("x", 256 * MB, tarfile.GNUTYPE_LONGNAME))),
        "ratio": gzip.compress(shard(header("r.txt", 80 * MB), bytes(80 * MB), header("late.png", 0))),
        "sparse": shard(header("s.png", 512, tarfile.GNUTYPE_SPARSE), bytes(512)),
    }
    write_folder(tmp_path, {f"{name}.tar": content for name, content in shards.items()})
    for name, use_dictionary in (("page", False), ("same", True)):
        write_cells(tmp_path / f"{name}.parquet", use_dictionary)
    (tmp_path / "not_text.parquet").write_bytes((tmp_path / "same.parquet").read_bytes().replace(b"image", b"\xffmage"))
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    (tmp_path / "sparse.png").touch()
    os.truncate(tmp_path / "sparse.png", 1 << 40)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").symlink_to(tmp_path)
    deep = tmp_path / "/".join("d" * 1500)
    subprocess.run(["mkdir", "-p", deep], check=True)  # Python's own functions have a limit
    (deep / "deep.png").write_bytes(b"deep")
    (tmp_path / "z.png").write_bytes(b"last")
    del shards

    tracemalloc.start()
    before = pyarrow.total_allocated_bytes()
    source = Source(str(tmp_path), most=LIMIT, outside=True)
    found = {}
    for path, content in map(sources.read, source.items()):
        found[path] = str(content) if isinstance(content, Exception) else len(content)
        assert pyarrow.total_allocated_bytes() - before < 4 * LIMIT
    assert tracemalloc.get_traced_memory()[1] < 8 * LIMIT
    tracemalloc.stop()
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)

    assert {found[path] for path in found if path.endswith("good.png")} == {512}
    assert sum(path.endswith("good.png") for path in found) == 6
    assert [found.pop(f"same.parquet/{row}") for row in range(20)] == [LIMIT] * 20
    assert found["z.png"] == 4
    too_large = "the request body is larger than LIGHTBOX_MAX_BODY_MB=4 MiB"
    expected = {"zero.png": "a device", "pipe.png": "a pipe", "folder.png": "a folder", "sparse.png": too_large}
    assert {name: words for name, words in expected.items() if words not in str(found[name])} == {}
    assert found[str((deep / "deep.png").relative_to(tmp_path))] == 4
    said = dict(problem.split(".", 1) for problem in source.problems)
    for name, words in {
        "endless": "after 1 pictures: the shard ends within a member",
        "far": "after 1 pictures: the shard ends within a member",
        "name": "after 1 pictures: the shard has a header of 268,435,456 bytes; at most 65,536 are read",
        "ratio": "after 1 pictures: the shard inflates to more than 100 times its size",
        "sparse": "after 1 pictures: the shard holds 's.png', a sparse file",
        "page": "after 0 pictures: a page of ",
        "not_text": "after 0 pictures: ",
    }.items():
        assert words in said.pop(name), name
    assert not said


def test_endless_lines_of_a_list_take_no_memory(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a.png": b"a", "b.png": b"b"})
    listed = write_list(tmp_path / "l.jsonl", ["a.png"])
    listed.write_bytes(listed.read_bytes() + b"no line\n" * 5000)
    os.truncate(listed, 1 << 40)
    source = Source(str(listed))
    tracemalloc.start()
    assert read(source) == {"a.png": b"a"}
    assert tracemalloc.get_traced_memory()[1] < 8 * MB
    tracemalloc.stop()
    assert len(source.problems) + source.more_problems == 5001


def test_what_is_outside_the_source_is_not_read(tmp_path: Path) -> None:
    """Neither does a refusal tell whether the other file exists."""
    write_folder(tmp_path, {"secret": b"secret", "in/a.png": b"a", "in/more/b.png": b"b", "inside/c.png": b"c"})
    for name, to in (("near", "a.png"), ("far", "../secret"), ("full", "/etc/hostname"), ("none", "/etc/nothing")):
        (tmp_path / "in" / f"{name}.png").symlink_to(to)
    (tmp_path / "in" / "loop").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    where = "it is outside the source's folder; --outside reads it too"
    expected = dict.fromkeys(["far.png", "full.png", "none.png"], where)
    assert read(Source(f"{tmp_path}/link")) == expected | {"a.png": b"a", "near.png": b"a", "more/b.png": b"b"}
    places = ["../secret", "/etc/hostname", "/etc/nothing", "loop/secret", "/dev/zero", "../inside/c.png", "far.png"]
    listed = write_list(tmp_path / "in" / "l.jsonl", [*places, "more/../a.png", f"{tmp_path}/in/more/b.png"])
    inside: dict[str, bytes | str] = {"more/../a.png": b"a", f"{tmp_path}/in/more/b.png": b"b"}
    assert read(Source(str(listed))) == dict.fromkeys(places, where) | inside
    opened = read(Source(str(listed), outside=True))
    assert (opened["../secret"], opened["far.png"]) == (b"secret", b"secret")
    assert "a device" in str(opened["/dev/zero"])
    (tmp_path / "l.jsonl").symlink_to(listed)
    assert read(Source(f"{tmp_path}/l.jsonl"))["/etc/hostname"] == where, "SOURCE itself may be a link"


def test_a_list_names_objects_of_its_own_bucket_only(tmp_path: Path) -> None:
    listed = write_list(tmp_path / "l.manifest", ["s3://bucket/a.png"])
    refused = "it is not in the list's bucket; --outside reads it too"
    assert read(Source(str(listed))) == {"s3://bucket/a.png": refused}


def test_large_pictures_are_not_kept_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(in_order.__globals__, "MOST_HELD", 10)
    begun = list[int]()

    def items() -> Iterator[tuple[int, bytes]]:
        for number in range(50):
            begun.append(number)
            yield number, bytes(6)

    for number, _ in in_order(lambda item: item, items(), threads=8):
        assert begun[-1] - number <= 1
    assert len(begun) == 50
