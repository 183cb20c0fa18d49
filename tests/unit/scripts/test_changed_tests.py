"""make quick: which unit tests a change runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from changed_tests import chosen

FILES = {
    "container/lightbox/images/decode.py": "",
    "container/lightbox/images/exif.py": "",
    "container/lightbox/empty/deep.py": "",
    "tests/unit/lightbox/test_cli.py": "",
    "tests/unit/lightbox/images/test_decode.py": "from support import fakes, photos\n",
    "tests/unit/lightbox/images/test_decode_limits.py": "from support.photos import path_of\n",
    "tests/unit/lightbox/images/test_resize.py": "from support.photos import path_of\n",
    "tests/unit/scripts/test_audit.py": "",
    "tests/unit/test_docs.py": "",
}
IMAGES = [f"tests/unit/lightbox/images/test_{name}.py" for name in ("decode", "decode_limits", "resize")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("container/lightbox/images/decode.py", IMAGES[:2]),
        ("container/lightbox/images/exif.py", IMAGES),
        ("container/lightbox/empty/deep.py", ["tests/unit/lightbox/test_cli.py"]),
        ("scripts/audit.py", ["tests/unit/scripts/test_audit.py"]),
        ("tests/unit/lightbox/images/conftest.py", ["tests/unit/lightbox/images"]),
        ("tests/unit/lightbox/test_deleted.py", []),
        ("tests/support/photos.py", IMAGES),
        ("docs/errors.md", ["tests/unit/test_docs.py"]),
    ],
)
def test_what_a_changed_file_runs(repository: Path, file: str, tests: list[str]) -> None:
    assert chosen([Path(file)], repository) == ([Path(test) for test in tests], [] if tests else [Path(file)])
