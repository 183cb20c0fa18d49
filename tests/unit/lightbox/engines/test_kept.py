"""What is kept of models from one start to the next: whose it is, for what it holds, and how much of it there is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from lightbox.engines import hardware, kept

X86 = """processor\t: {number}
vendor_id\t: GenuineIntel
model name\t: {name}
cpu MHz\t\t: {speed}
flags\t\t: fpu {extensions}

"""


def written(root: Path, name: str, used: int, size: int = 100) -> Path:
    """Make what is kept of a model, last used at a moment."""
    folder = root / f"{name * 32}-00000000"
    folder.mkdir(parents=True)
    (folder / "1.blob").write_bytes(bytes(size))
    os.utime(folder, (used, used))
    return folder


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = kept.private(tmp_path / "deep" / "cache" / "lightbox")
    folder.chmod(0o775)
    assert kept.private(folder) == folder
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.private(tmp_path / "lightbox")
    (tmp_path / "linked").symlink_to("lightbox")
    assert kept.private(tmp_path / "linked").is_dir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for name in ("lightbox", "linked"):
        with pytest.raises(PermissionError, match="it belongs to another user"):
            kept.private(tmp_path / name)


def test_what_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may write everywhere
    with pytest.raises(PermissionError, match="it cannot be written"):
        kept.private(tmp_path / "lightbox")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        kept.private(tmp_path / "file")


def test_a_model_has_a_folder_for_its_files_and_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = [tmp_path / "1", tmp_path / "2"]
    for version in versions:
        (version / "variables").mkdir(parents=True)
        (version / "saved_model.pb").write_bytes(b"graph")
        (version / "variables" / "variables.index").write_bytes(b"weights")
    root = str(tmp_path / "kept")
    first = kept.of_model(root, versions[0])
    assert kept.of_model(root, versions[1]) == first
    (versions[1] / "variables" / "variables.index").write_bytes(b"WEIGHTS")
    assert kept.of_model(root, versions[1]) != first
    monkeypatch.setattr(kept, "processor", lambda: "01234567")
    assert kept.of_model(root, versions[0]) != first
    assert len(list(Path(root).iterdir())) == 3
    assert kept.of_model("", versions[0]) == ""
    assert kept.of_model(root, tmp_path) == root


def test_processors_of_a_kind_share_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(**facts: object) -> str:
        text = "".join(
            X86.format(**{"number": n, "name": "A", "speed": 2000, "extensions": "avx2"} | facts) for n in (0, 1)
        )
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(hardware, "_PROCESSORS", tmp_path / "cpuinfo")
        hardware.processor.cache_clear()
        return hardware.processor()

    try:
        assert named() == named(speed=3000)
        assert len({named(), named(name="B"), named(extensions="avx2 avx512f")}) == 3
    finally:
        hardware.processor.cache_clear()


def test_models_that_were_not_loaded_for_the_longest_time_give_way(tmp_path: Path) -> None:
    oldest, old, new = (written(tmp_path, name, used) for name, used in (("c", 1), ("a", 2), ("b", 3)))
    foreign = tmp_path / "photos"
    foreign.mkdir()
    kept.make_room(tmp_path, 300)
    assert oldest.exists()
    kept.make_room(tmp_path, 250)
    assert [folder.exists() for folder in (oldest, old, new, foreign)] == [False, True, True, True]
    kept.make_room(tmp_path, 0)
    assert [folder.exists() for folder in (old, new, foreign)] == [False, True, True]


def test_what_another_process_writes_to_stays(tmp_path: Path) -> None:
    old, _ = written(tmp_path, "a", 1), written(tmp_path, "b", 2)
    descriptor = os.open(old, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        kept.make_room(tmp_path, 0)
        assert old.exists()
    finally:
        os.close(descriptor)
    kept.make_room(tmp_path, 0)
    assert not old.exists()
