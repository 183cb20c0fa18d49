"""The app of a small model with a user's inference.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from flask.testing import FlaskClient

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app

WriteCode = Callable[[str], Path]
WithCode = Callable[[str], FlaskClient]


@pytest.fixture
def write_code(tmp_path: Path) -> WriteCode:
    """Write code/inference.py and return its path."""

    def write(source: str) -> Path:
        file = tmp_path / "code" / "inference.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(source))
        return file

    return write


@pytest.fixture
def with_code(transport: FakeTransport, write_code: WriteCode) -> WithCode:
    """Return a client of ``mean_model`` with a user's code."""

    def client(source: str) -> FlaskClient:
        options = ModelOptions(labels=("red", "green", "blue"), top_k=2)
        return fake_app(transport, {"mean": options}, code=write_code(source).parent).test_client()

    return client
