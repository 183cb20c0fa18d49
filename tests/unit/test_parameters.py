"""support.parameters: each case runs in a folder of its own, and every failed one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.parameters import each


def test_all_cases_run_and_each_failure_is_named(tmp_path: Path) -> None:
    seen = list[tuple[int, str, Path]]()

    @each("number", [1, 2, 3])
    @each(("word", "other"), [("a", 0), ("b", 0)])
    def test(tmp_path: Path, number: int, word: str, other: int) -> None:
        seen.append((number, word, tmp_path))
        if number == 2:
            pytest.fail("no two")

    with pytest.raises(BaseExceptionGroup, match="1 of 3 cases of number") as raised:
        test(tmp_path=tmp_path)
    assert [case[:2] for case in seen] == [(number, word) for number in (1, 2, 3) for word in "ab"]
    assert len({folder for *_, folder in seen if folder.is_dir()}) == 6
    (two,) = raised.value.exceptions
    assert "'number': 2" in two.__notes__[0]
    assert isinstance(two, BaseExceptionGroup)
    assert [failed.__notes__[0][:21] for failed in two.exceptions] == ["case 0: {'word': 'a',", "case 1: {'word': 'b',"]


def test_no_case_is_an_error() -> None:
    with pytest.raises(AssertionError, match="expected a case of number"):
        each("number", [])
