"""The file of keys: accepted lines, errors that do not quote a line, and reloading."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lightbox.features.access.keys import MOST_KEYS, KeyFile, Rate, parse
from support.keys import key_line as line
from support.parameters import each


def name_of(keys: KeyFile, key: str) -> str | None:
    found = keys.find(key.encode())
    return found.name if found else None


def test_a_file_has_comments_blank_lines_and_several_keys_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    upper = line("b", "three", "metrics,manage").replace("sha256:", "").upper().split()
    file.write_text(f"# callers\n\n{line('a', 'one')}{line('a', 'two')[:-1]}  # the next one\r\n")
    keys = KeyFile(file)
    assert [name_of(keys, key) for key in ("one", "two", "three", "")] == ["a", "a", None, None]
    assert list(keys.names()) == ["a"]
    (caller,) = parse(f"\tb\tsha256:{upper[1]}\tmetrics,manage")
    assert (caller.name, sorted(caller.roles)) == ("b", ["manage", "metrics"])
    assert (caller.rate, caller.at_once) == (None, None)
    (caller,) = parse(line("b", "k", "infer at_once=4 rate=600/min"))
    assert (caller.rate, caller.at_once, caller.batch) == (Rate(600, 60), 4, False)
    assert parse(line("b", "k", "infer priority=batch"))[0].batch


HASH = "0123456789abcdef" * 4


@each(
    ("text", "sentence"),
    [
        ("", "got no line with a key"),
        ("# nothing\n", "got no line with a key"),
        (f"ci sha256:{HASH}", "line 1: expected a name, sha256: .*; got 2 words"),
        (f"{line('a', 'k')}ci sha256:{HASH} infer, metrics", "line 2: roles of ci"),
        (
            f"ci sha256:{HASH} infer rate=10",
            "line 1: limits of ci: expected rate=N/s, N/min or N/h, at_once=N",
        ),
        (f"ci sha256:{HASH} infer at_once=0", "line 1: limits of ci"),
        (f"ci sha256:{HASH[1:]} infer", "line 1: hash of ci: expected sha256: and 64 hexadecimal digits, got 70"),
        (f"ci md5:{HASH} infer", "line 1: hash of ci"),
        (f"ci {HASH} infer", "line 1: hash of ci"),
        (f"ci sha256:{HASH[1:]}g infer", "line 1: hash of ci"),
        (f"ci sha256:{HASH} admin", "line 1: roles of ci: expected infer, metrics, manage"),
        (f"ci sha256:{HASH} infer,", "line 1: roles of ci"),
        (f"c\u00ef sha256:{HASH} infer", "line 1: name: expected"),
        (f"{'x' * 65} sha256:{HASH} infer", "line 1: name: expected"),
        (line("a", "k") + line("b", "k"), "got one key for a, b"),
        ("".join(line(f"n{i}", f"k{i}") for i in range(MOST_KEYS + 1)), f"expected {MOST_KEYS} keys at most"),
    ],
)
def test_a_damaged_line_is_named(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse(text)


@each("text", ["s3cret", "s3cret infer", f"ci s3cret sha256:{HASH}", f"ci sha256:{HASH} s3cret"])
def test_an_error_quotes_no_field_that_may_be_a_key(text: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        parse(text)
    assert "s3cret" not in str(raised.value)


def test_a_changed_file_counts_at_once_and_a_damaged_one_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys"
    file.write_text(line("a", "one"))
    keys = KeyFile(file)
    file.write_text(line("a", "one") + line("b", "other"))
    keys.look()
    assert name_of(keys, "other") == "b"
    file.write_text(line("b", "other") + "broken\n")
    for _ in range(2):
        keys.look()
        assert [name_of(keys, key) for key in ("one", "other")] == ["a", "b"]
    file.unlink()
    for _ in range(2):
        keys.look()
        assert name_of(keys, "one") == "a"
    file.write_text(line("b", "other"))
    keys.look()
    assert [name_of(keys, "one"), name_of(keys, "other")] == [None, "b"]
    said = capsys.readouterr().err
    assert said.count("line 2: expected a name") == 1
    assert said.count("the keys stay as they were") == 2


def test_a_secret_that_kubernetes_swaps_is_followed(tmp_path: Path) -> None:
    for name, key in (("old", "one"), ("new", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys").write_text(line("a", key))
        os.utime(tmp_path / name / "keys", (1, 1))
    (tmp_path / "data").symlink_to("old")
    (tmp_path / "keys").symlink_to("data/keys")
    keys = KeyFile(tmp_path / "keys")
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(tmp_path / "data")
    keys.look()
    assert [name_of(keys, "one"), name_of(keys, "two")] == [None, "a"]


def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys"
    file.write_text(line("a", "one"))
    keys = KeyFile(file)
    new = line("a", "two")
    file.write_text(new)
    os.utime(file, (1, 1))
    file.rename(tmp_path / "away")
    keys.look()
    (tmp_path / "away").rename(file)
    keys.look()
    assert [name_of(keys, "one"), name_of(keys, "two")] == [None, "a"]
    os.utime(file, (1, 1))
    file.write_text(new.replace("infer", "x" * 5))
    os.utime(file, (1, 1))  # same length, same time
    keys.look()
    assert "line 1: roles of a" in capsys.readouterr().err


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "keys")
    with pytest.raises(ValueError, match="expected a regular file, got another kind"):
        KeyFile(tmp_path / "keys")


def test_a_file_of_windows_begins_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(line("a", "one"), encoding="utf-8-sig")
    assert name_of(KeyFile(tmp_path / "keys"), "one") == "a"
