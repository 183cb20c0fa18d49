"""The audit of the dependencies: its findings, and its warning when the service is unreachable."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import audit
from support.http_server import answering_posts
from support.patience import PATIENCE


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SECONDS", round(PATIENCE))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "some.lock"
    file.write_text(f"idna==3.6 \\\n    --hash=sha256:{'0' * 64}\nflask==3.1.3 \\\n    --hash=sha256:{'1' * 64}\n")
    return file


def service(vulnerable: str | None) -> AbstractContextManager[str]:
    """Respond like OSV, with one vulnerability in one package."""

    def answer(body: bytes) -> tuple[int, bytes]:
        name = json.loads(body)["package"]["name"]
        fixed: dict[str, Any] = {"package": {"name": name, "ecosystem": "PyPI"}}
        fixed["ranges"] = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.7"}]}]
        found = {"id": "PYSEC-2024-60", "details": "slow", "affected": [fixed], "published": "2024-01-01T00:00:00Z"}
        return 200, json.dumps({"vulns": [found]} if name == vulnerable else {}).encode()

    return answering_posts(answer)


def test_a_known_vulnerability_is_an_error(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with service("idna") as url:
        assert audit.main(["--osv-url", url, str(lock)]) == 1
    assert "idna 3.6: PYSEC-2024-60, fixed in 3.7" in capsys.readouterr().err


@pytest.mark.parametrize(("strict", "code"), [("", 0), ("strict", 1)])
def test_nobody_to_ask_is_said_loudly(
    lock: Path,
    closed_port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    strict: str,
    code: int,
) -> None:
    monkeypatch.setenv("AUDIT", strict)
    assert audit.main(["--osv-url", f"http://127.0.0.1:{closed_port}", str(lock)]) == code
    said = capsys.readouterr().err
    assert "THE DEPENDENCIES WERE NOT AUDITED" in said
    assert "127.0.0.1" in said


def test_packages_that_a_service_does_not_know_are_not_taken_for_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit._report({"a ": None, "b 1": []}) == 0
    assert "1 locked packages, 0 known vulnerabilities, 1 unknown to the service" in capsys.readouterr().out
