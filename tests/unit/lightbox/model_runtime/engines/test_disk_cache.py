"""Files about models that outlast a start: their owner, their validity and their integrity."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lightbox.model_runtime.engines import disk_cache, hardware

X86 = """processor\t: {number}
vendor_id\t: GenuineIntel
model name\t: {name}
cpu MHz\t\t: {speed}
flags\t\t: fpu {extensions}

"""


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = disk_cache.private_folder(tmp_path / "deep" / "cache" / "lightbox")
    folder.chmod(0o775)
    assert disk_cache.private_folder(folder) == folder
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.private_folder(tmp_path / "lightbox")
    (tmp_path / "linked").symlink_to("lightbox")
    assert disk_cache.private_folder(tmp_path / "linked").is_dir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for name in ("lightbox", "linked"):
        with pytest.raises(PermissionError, match="it belongs to another user"):
            disk_cache.private_folder(tmp_path / name)


def test_what_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(PermissionError, match="it cannot be written"):
        disk_cache.private_folder(tmp_path / "lightbox")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        disk_cache.private_folder(tmp_path / "file")


def test_what_is_kept_of_models_lies_in_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert disk_cache.cache_folder(tmp_path) == (tmp_path / "home" / ".cache" / "lightbox", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert disk_cache.cache_folder(tmp_path) == (tmp_path / "other" / "lightbox", "")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "home").rglob("*")} == {0o700}
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert disk_cache.cache_folder(tmp_path) == (tmp_path / "engine", "")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert disk_cache.cache_folder(tmp_path) == (tmp_path / "engine", f"{tmp_path / 'file'}: File exists")


def test_a_model_is_known_by_its_files(tmp_path: Path) -> None:
    versions = [tmp_path / "1", tmp_path / "2"]
    for version in versions:
        (version / "variables").mkdir(parents=True)
        (version / "saved_model.pb").write_bytes(b"graph")
        (version / "variables" / "variables.index").write_bytes(b"weights")
    first = disk_cache.digest_of(versions[0])
    assert disk_cache.digest_of(versions[1]) == first
    weights = versions[1] / "variables" / "variables.index"
    before = weights.stat()
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert weights.stat().st_ino == before.st_ino
    assert disk_cache.digest_of(versions[1]) != first


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


def test_what_is_written_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "deep" / "facts.json"
    assert disk_cache.read(place) is None
    content = {"milliseconds": 0.1 + 0.2, "refused": "Größe", "nested": {"b": [1, None], "a": True}}
    disk_cache.write(place, content)
    disk_cache.write(place, content)
    assert disk_cache.read(place) == content
    assert list(place.parent.iterdir()) == [place]
    assert not caplog.messages


def test_no_byte_of_what_is_written_may_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "facts.json"
    disk_cache.write(place, {"engine": "openvino", "milliseconds": 1.25, "is_equal": True})
    whole = place.read_bytes()
    spoiled = [whole[:size] for size in range(len(whole) - 1)]
    spoiled += [whole[:at] + bytes([byte ^ 1]) + whole[at + 1 :] for at, byte in enumerate(whole) if byte > ord(" ")]
    for content in (*spoiled, b"null", b'["sha256"]'):
        place.write_bytes(content)
        caplog.clear()
        assert disk_cache.read(place) is None, content
        if b'"sha256"' in content:
            assert caplog.messages == [f"{place} is damaged: its facts are determined again"]


def test_what_has_no_checksum_is_none_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for content in ("[]", "{}", '{"format": 1, "signatures": {}}'):
        (tmp_path / "facts.json").write_text(content)
        assert disk_cache.read(tmp_path / "facts.json") is None
    assert not caplog.messages
