"""Code for all models from S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lightbox.user_code.s3 import name_of
from support.models import copy_golden
from support.s3 import serving, universal
from support.stack import Stack, running

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with serving() as environ:
        yield environ


@contextmanager
def served(tmp: Path, environ: dict[str, str]) -> Iterator[Stack]:
    copy_golden("half_plus_two", tmp / "models" / "half_plus_two")
    with running(tmp / "models", tmp / "run", **environ) as stack:
        yield stack


def test_one_model_uses_it(tmp_path: Path, s3: dict[str, str]) -> None:
    with served(tmp_path, s3 | universal("models", "team/code/")) as stack:
        assert stack.invoke(b"1").text == "from S3"
    assert not list(tmp_path.rglob("escaped.py"))


@pytest.mark.parametrize(
    ("key", "prefix", "name"),
    [
        ("team/code/inference.py", "team/code/", "inference.py"),
        ("team/code/lib/a.py", "team/code", "lib/a.py"),
        ("team/inference.py", "team/inf", "inference.py"),
        ("inference.py", "inference.py", "inference.py"),
    ],
)
def test_names_begin_after_the_prefixs_folder(key: str, prefix: str, name: str) -> None:
    assert name_of(key, prefix) == name
