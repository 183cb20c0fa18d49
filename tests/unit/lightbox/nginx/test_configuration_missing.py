"""If nginx is not installed, the error shows the install command for this system."""

from __future__ import annotations

import platform
import shutil

import pytest

from lightbox.nginx.configuration import NginxMissing, find_nginx

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
