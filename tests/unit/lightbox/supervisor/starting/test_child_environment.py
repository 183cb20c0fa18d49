"""The children's path of modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.supervisor.starting import child_environment


@pytest.mark.parametrize(("root", "paths"), [("/opt/lightbox/container", 2), ("/venv/lib/site-packages", 1)])
def test_what_is_installed_stays_behind_the_standard_library(
    root: str, paths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_environment, "CONTAINER_DIR", Path(root))
    monkeypatch.setenv("PYTHONPATH", "/own")
    assert child_environment.child_environ()["PYTHONPATH"].split(":") == [root, "/own"][-paths:]
