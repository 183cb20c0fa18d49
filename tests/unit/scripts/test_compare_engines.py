"""scripts/compare_engines.py: its table for a file of each kind, and what it says of files that nothing reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import compare_engines
from support.model_files import write_dense_as
from support.stack import REPOSITORY


def rows(printed: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines() if line[:1] == "|"]


def test_each_engine_that_reads_a_file_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a" / "1" / "model.onnx", tmp_path / "b" / "1" / "model.tflite"]
    for file in files:
        write_dense_as(file)
    assert compare_engines.main([*(str(file.parent) for file in files), "--rounds", "2"]) == 0
    header, _, *lines = rows(capsys.readouterr().out)
    assert tuple(header) == compare_engines.HEADER
    assert sorted(line[:2] for line in lines) == [["a", "onnxruntime"], ["a", "openvino"], ["b", "openvino"]]
    for *_, median, least, p50 in lines:
        assert float(median) >= float(least) > 0
        assert float(p50) > 0


def test_what_nothing_reads_is_told_and_the_others_are_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, empty = (tmp_path / name / "1" for name in ("good", "bad", "empty"))
    write_dense_as(good / "model.xml")
    write_dense_as(bad / "model.onnx")
    (bad / "model.onnx").write_bytes((bad / "model.onnx").read_bytes()[:-9])
    empty.mkdir(parents=True)
    assert compare_engines.main([*map(str, (good, bad, empty)), "--rounds", "1"]) == 1
    printed = capsys.readouterr()
    assert [line[:2] for line in rows(printed.out)[2:]] == [["good", "openvino"]]
    for engine in ("onnxruntime", "openvino"):
        assert f"{bad}: {engine} does not read it" in printed.err
    for folder in (bad, empty):
        assert f"compare_engines.py: {folder}: expected a folder with a model that an engine reads" in printed.err


def test_the_page_has_the_table_that_is_printed() -> None:
    page = (REPOSITORY / "docs" / "engines.md").read_text()
    assert f"| {' | '.join(compare_engines.HEADER)} |" in page
