"""A missing nginx, with the install command for this system, and one that may be vulnerable."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from lightbox.core.additions import Port, StartNeeds
from lightbox.nginx.installation import NginxMissing, find_nginx, http2_warning, resists_rapid_reset
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.start_checks import find_warnings
from support.parameters import each

SYSTEMS = {
    "Debian 13": ({"ID": "debian"}, "apt-get install nginx-light"),
    "Ubuntu 24.04": ({"ID": "ubuntu", "ID_LIKE": "debian"}, "apt-get install nginx-light"),
    "Mint": ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "apt-get install nginx-light"),
    "Fedora": ({"ID": "fedora"}, "dnf install nginx"),
    "Rocky": ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install nginx"),
    "Alpine": ({"ID": "alpine"}, "apk add nginx"),
    "macOS": (None, "brew install nginx"),
}


@pytest.mark.parametrize(("release", "line"), SYSTEMS.values(), ids=SYSTEMS)
def test_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch, release: dict[str, str] | None, line: str) -> None:
    def reported() -> dict[str, str]:
        if release is None:
            raise OSError("no os-release")
        return release

    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(platform, "freedesktop_os_release", reported)
    monkeypatch.setattr(platform, "system", lambda: "Linux" if release else "Darwin")
    with pytest.raises(NginxMissing) as caught:
        find_nginx()
    said = str(caught.value)
    assert said.startswith(f"nginx is not installed: install it with '{line}'; ")
    assert said.endswith("lightbox serve --without-nginx")


def test_an_unknown_system_gets_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "nixos"})
    with pytest.raises(
        NginxMissing, match=r"'apt-get install nginx-light' or 'dnf install nginx' or 'apk add nginx' or"
    ):
        find_nginx()


@each(
    ("version", "resists"),
    [
        ("1.22.1-9+deb12u11", True),
        ("1.22.1-9+deb12u12", True),
        ("1.22.1-9+deb12u10", False),
        ("1.22.1-9", False),
        ("1.22.1-1~bookworm", False),
        ("1.24.0-2ubuntu7", False),
        ("1.25.3-1~bookworm", True),
        ("1.26.3-3+deb13u1", True),
        ("2.0.0", True),
        ("unknown", False),
    ],
)
def test_versions_that_resist_rapid_reset(version: str, resists: bool) -> None:
    assert resists_rapid_reset(version) == resists


def test_an_nginx_that_may_not_resist_rapid_reset_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = tmp_path / "dpkg-query"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert http2_warning() is None
    query.write_text("#!/bin/sh\nprintf 1.22.1-9+deb12u10\n")
    query.chmod(0o755)
    reply = str(http2_warning())
    assert reply.startswith("nginx 1.22.1-9+deb12u10 may lack the fix of HTTP/2 rapid reset")
    grpc = StartNeeds(ports=[Port("LIGHTBOX_KSERVE_GRPC_PORT", 8500, "")])
    several = load_settings({"SAGEMAKER_MULTI_MODEL": "true"})
    assert (find_warnings(several), find_warnings(several, grpc)) == ([], [reply])
    query.write_text("#!/bin/sh\nexit 1\n")
    assert http2_warning() is None
