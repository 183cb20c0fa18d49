"""The places where uv looks for packages are those that pip is configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from install import configured, uv_options


def test_uv_looks_where_pip_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = http://mirror/simple\nfind-links = /wheels\ntimeout = 9\n"
        "[install]\nextra-index-url = http://one/simple\n    http://two/simple\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", "/own")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert uv_options(configured()) == [
        "--index-strategy=unsafe-best-match",
        "--no-index",
        "--index-url=http://mirror/simple",
        "--extra-index-url=http://one/simple",
        "--extra-index-url=http://two/simple",
        "--find-links=/own",
    ]
