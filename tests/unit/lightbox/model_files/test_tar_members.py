"""Model archives: allowed contents, and cost in proportion to the size of the archive."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightbox.base.errors import BadRequest, DeadlineExceeded, LightboxError, NoRoom, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.model_files import archives
from lightbox.model_files.archives import unpack
from support.parameters import each
from support.patience import PATIENCE

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
MB = 1 << 20


def member(
    name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = "", size: int = 0
) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.mode, found.linkname, found.size = kind, mode, link, size
    return found


def packed(
    path: Path, *members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT
) -> Path:
    with tarfile.open(path, "w:gz", format=form, compresslevel=1) as archive:
        for entry in members:
            info, data = entry if isinstance(entry, tuple) else (entry, b"")
            info.size = info.size or len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def taken(archive: Path, folder: Path, max_mb: int = 100, seconds: float = PATIENCE) -> Path:
    unpack(archive, folder, "url", RequestContext(seconds), max_mb << 20)
    return folder


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("form", FORMATS)
def test_files_come_out_as_they_went_in(tmp_path: Path, form: int) -> None:
    long = "/".join(["a" * 60] * (4 if form != tarfile.USTAR_FORMAT else 2))
    source = tmp_path / "source"
    (source / "1" / long).mkdir(parents=True)
    (source / "1" / "saved_model.pb").write_bytes(os.urandom(300_000))
    (source / "1" / long / "größe").write_bytes(b"x" * 513)
    (source / "1" / "empty").touch()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=form) as archive:
        archive.add(source, ".")
    found = taken(tmp_path / "a.tar.gz", tmp_path / "out")
    assert below(found) == below(source)
    for path in source.rglob("*"):
        assert path.is_dir() or (found / path.relative_to(source)).read_bytes() == path.read_bytes()


def test_the_last_member_of_a_name_counts_and_hard_links_are_the_file(tmp_path: Path) -> None:
    last = (member("a"), b"second")
    link = member("b", tarfile.LNKTYPE, link="./a")
    found = taken(
        packed(tmp_path / "a", (member("a"), b"first"), last, link, (member("a"), b"third")), tmp_path / "out"
    )
    assert (found / "a").read_bytes() == b"third"
    assert (found / "b").read_bytes() == b"second"


def test_several_gzip_members_and_no_end_mark_are_read(tmp_path: Path) -> None:
    whole = gzip.decompress(packed(tmp_path / "a", (member("a"), b"x" * 600)).read_bytes())[:1536]
    (tmp_path / "b").write_bytes(gzip.compress(whole[:700]) + gzip.compress(whole[700:]) + bytes(100))
    assert (taken(tmp_path / "b", tmp_path / "out") / "a").read_bytes() == b"x" * 600


def test_permissions_are_our_own(tmp_path: Path) -> None:
    closed = member("closed", tarfile.DIRTYPE, mode=0)
    file, plain = (member("closed/file", mode=0o6777), b"x"), (member("plain", mode=0), b"x")
    found = taken(packed(tmp_path / "a", closed, file, plain), tmp_path / "out")
    modes = {path.name: path.stat().st_mode & 0o7777 & ~0o022 for path in found.rglob("*")}
    assert modes == {"closed": 0o755, "file": 0o755, "plain": 0o644}


@each(
    ("bad", "says"),
    [
        (member("../out"), "leads out of it"),
        (member("a/../../out"), "leads out of it"),
        (member("/tmp/out"), "leads out of it"),
        (member("a", tarfile.SYMTYPE, link="."), "a symbolic link"),
        (member("a", tarfile.LNKTYPE, link="/etc/passwd"), "leads out of it"),
        (member("a", tarfile.LNKTYPE, link="../x"), "leads out of it"),
        (member("a", tarfile.LNKTYPE, link="b"), "not an earlier file of it"),
        (member("a", tarfile.CHRTYPE), "a device"),
        (member("a", tarfile.FIFOTYPE), "a named pipe"),
        (member("a", tarfile.GNUTYPE_SPARSE), "a sparse file"),
        (member("/".join("x" * 40)), "more than 32 deep"),
        (member("x" * 300), "cannot be unpacked: File name too long"),
    ],
)
def test_what_no_model_needs_is_refused(tmp_path: Path, bad: tarfile.TarInfo, says: str) -> None:
    with pytest.raises(BadRequest, match=f"url: the archive .*{says}"):
        taken(packed(tmp_path / "a", (member("first"), b"x"), bad), tmp_path / "out")
    assert set(below(tmp_path)) <= {"a", "out", "out/first"}


def test_pax_sparse_files_are_refused(tmp_path: Path) -> None:
    sparse = member("a")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40)}
    with pytest.raises(BadRequest, match="a sparse file"):
        taken(packed(tmp_path / "a", sparse), tmp_path / "out")


@pytest.mark.parametrize("size", [1 << 33, -1, 1 << 80])
def test_a_size_that_is_not_there_ends_with_the_archive(tmp_path: Path, size: int) -> None:
    header = bytearray(member("a").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = (size % (1 << 96)).to_bytes(12, "big") if size < 0 else b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 256)
    (tmp_path / "a").write_bytes(gzip.compress(bytes(header) + bytes(2000)))
    with pytest.raises(BadRequest, match=r"ends within a member|number that cannot be read"):
        taken(tmp_path / "a", tmp_path / "out")


@pytest.mark.parametrize("megabytes", [20, 80])
def test_an_archive_costs_no_more_than_it_may_unpack_to(tmp_path: Path, megabytes: int) -> None:
    archive = packed(tmp_path / "a", (member("a"), bytes(megabytes * MB)))
    with pytest.raises(TooLarge, match="unpacks to more than 8 MiB"):
        taken(archive, tmp_path / "out", max_mb=8)
    assert (tmp_path / "out" / "a").stat().st_size <= 8 * MB


def test_an_archive_unpacks_to_no_more_than_a_hundred_times_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "FREE_BYTES", MB)
    archive = packed(tmp_path / "a", (member("a"), bytes(32 * MB)))
    with pytest.raises(TooLarge, match="100 times its size"):
        taken(archive, tmp_path / "out")
    assert (tmp_path / "out" / "a").stat().st_size <= 100 * archive.stat().st_size + MB


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_is_never_in_memory_as_a_whole(tmp_path: Path, kind: bytes) -> None:
    archive = packed(tmp_path / "a", (member("a", kind), bytes(50 * MB)), form=tarfile.USTAR_FORMAT)
    tracemalloc.start()
    with pytest.raises(BadRequest, match="a header of 52,428,800 bytes"):
        taken(archive, tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 2 * MB
    tracemalloc.stop()


def test_memory_stays_small_whatever_the_archive_holds(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a", (member("a"), bytes(50 * MB)))
    tracemalloc.start()
    taken(archive, tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 2 * MB
    tracemalloc.stop()


def test_members_are_counted_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 100)
    for count in (200, 400):
        archive = packed(tmp_path / f"{count}", *(member(f"{index}", tarfile.DIRTYPE) for index in range(count)))
        with pytest.raises(BadRequest, match="more than 100 files and folders"):
            taken(archive, tmp_path / f"out{count}")
        assert len(below(tmp_path / f"out{count}")) < 100


def test_unpacking_ends_with_its_time_and_with_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed(tmp_path / "a", (member("a"), b"x"))
    with pytest.raises(DeadlineExceeded, match="not unpacked within -1 s"):
        taken(archive, tmp_path / "late", seconds=-1)
    monkeypatch.setattr(archives, "available_bytes", lambda: 1000)
    with pytest.raises(NoRoom, match=r"more than the memory that is left$"):
        taken(archive, tmp_path / "full")


def test_unpacking_onto_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = packed(tmp_path / "a", (member("a"), b"x"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(os, "open", lambda *_: full)
    with pytest.raises(NoRoom, match="temporary storage has no room for what the archive of url unpacks to"):
        taken(archive, tmp_path / "out")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3071), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_archive_unpacks_or_is_refused(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    whole = bytearray(
        gzip.decompress(packed(tmp_path / "a", (member("a/" + "b" * 120), b"x"), member("c")).read_bytes())
    )
    for place, value in changes:
        whole[place] = value
    (tmp_path / "b").write_bytes(gzip.compress(bytes(whole), 1))
    try:
        taken(tmp_path / "b", tmp_path / "out")
    except LightboxError as error:
        assert error.status < 500
    shutil.rmtree(tmp_path / "out")
    assert below(tmp_path) == ["a", "b"]
