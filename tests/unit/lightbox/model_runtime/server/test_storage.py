"""Versions on disk, and the choice of a version policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format

from lightbox.model_runtime.server.storage import choose, versions_on_disk
from lightbox.model_runtime.wire.messages import model_server_config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError
from support.parameters import each


def test_entries_named_by_a_number_are_versions(tmp_path: Path) -> None:
    for name in ("1", "00000123", "-3", "abc", ".4", "5x", "9" * 30):
        (tmp_path / name).mkdir()
    (tmp_path / "8").touch()
    assert versions_on_disk("m", str(tmp_path)).keys() == {1, 123, -3, 8}


def test_no_such_folder() -> None:
    with pytest.raises(StatusError) as caught:
        versions_on_disk("m", "/nonexistent")
    assert caught.value.code == Code.NOT_FOUND


@each(
    ("policy", "chosen"),
    [
        ("", [3]),
        ("latest {}", [3]),
        ("latest { num_versions: 2 }", [3, 2]),
        ("latest { num_versions: 9 }", [3, 2, 1]),
        ("all {}", [1, 2, 3]),
        ("specific { versions: 1 versions: 7 }", [1]),
    ],
)
def test_policies(policy: str, chosen: list[int]) -> None:
    config = text_format.Parse(f"model_version_policy {{ {policy} }}", model_server_config_pb2.ModelConfig())
    assert sorted(choose({1: "a", 2: "b", 3: "c"}, config)) == sorted(chosen)
