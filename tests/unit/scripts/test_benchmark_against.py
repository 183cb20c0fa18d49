"""A comparison with another checkout: how it is started, and the table of ratios."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmark import against
from benchmark.servers import Stack
from support.isolation import own_environ

SERVE = """#!/bin/sh
exec python3 -m http.server --directory "${0%/*}" "$SAGEMAKER_BIND_TO_PORT"
"""


def test_a_checkout_starts_by_its_own_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in own_environ().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "serve.sh").write_text(SERVE)
    (tmp_path / "serve.sh").chmod(0o755)
    (tmp_path / "ping").touch()
    with closing(Stack("other", tmp_path, checkout=tmp_path).start(tmp_path / "run")) as running:
        assert "GET /ping" in running.server.log


def test_a_folder_without_lightbox_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        against.main([str(tmp_path)])
    assert f"expected a checkout of Lightbox, but {tmp_path} has no serve.sh" in capsys.readouterr().err


def block(cpu: float, start: float) -> dict[str, Any]:
    """The result of a block in which this checkout takes ``cpu`` ms and ``start`` s, the other 10 ms and 4 s."""
    cpu_ms = {against.OTHER: {"gunicorn": 4, "model server": 6}, against.THIS: {"gunicorn": cpu}}
    ready = {against.OTHER: 4, against.THIS: start}
    pss = {against.OTHER: {"gunicorn": 100e6, "nginx": 0}, against.THIS: {"gunicorn": 90e6, "nginx": 20e6}}
    return {
        "experiments": [{"title": "1 client", "variants": [{"name": name, "cpu_ms": cpu_ms[name]} for name in cpu_ms]}],
        "servers": [{"name": name, "ready": ready[name], "pss": pss[name]} for name in pss],
    }


def test_ratios_are_medians_of_blocks_with_their_range() -> None:
    assert against.table([block(11, 4), block(9, 2), block(10.5, 5)])[2:] == [
        "| CPU ms an image, 1 client | 10.5 | 10.0 | 1.050 | 0.900 to 1.100 |",
        "| memory of gunicorn, MB | 90.0 | 100 | 0.900 | 0.900 to 0.900 |",
        "| memory of all processes, MB | 110 | 100 | 1.100 | 1.100 to 1.100 |",
        "| start, s | 4.00 | 4.00 | 1.000 | 0.500 to 1.250 |",
        "",
    ]
