"""The installed nginx: its path, how to install it, and a vulnerability that it may have."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess

from lightbox.base.errors import StartError
from lightbox.base.machine.environment import variable

INSTALLS = {
    "debian": "apt-get install nginx-light",
    "ubuntu": "apt-get install nginx-light",
    "fedora": "dnf install nginx",
    "alpine": "apk add nginx",
    "darwin": "brew install nginx",
}
"""The command that installs nginx, by the system's name in /etc/os-release, or the kernel's."""


class NginxMissing(StartError):
    """nginx is not installed; the message says what to do."""


def find_nginx() -> str:
    """Return nginx's path; Debian and Homebrew use folders outside of an ordinary user's PATH."""
    more = "/usr/sbin:/usr/local/sbin:/sbin:/opt/homebrew/bin"
    path = shutil.which("nginx", path=f"{variable('PATH')}:{more}")
    if path is None:
        raise NginxMissing(
            f"nginx is not installed: {how_to_install()}; for a first try without it: lightbox serve --without-nginx"
        )
    return path


def how_to_install() -> str:
    """Return the command that installs nginx on this system, or those of all known systems."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split(), platform.system().lower()]
    line = next((INSTALLS[name] for name in names if name in INSTALLS), None)
    lines = [line] if line else dict.fromkeys(INSTALLS.values())
    return f"install it with {' or '.join(map(repr, lines))}"


def http2_warning() -> str | None:
    """Return a warning if the installed nginx may lack the fix of HTTP/2 rapid reset, CVE-2023-44487.

    None if it has the fix, and without dpkg.
    """
    if shutil.which("dpkg-query") is None:
        return None
    query = ["dpkg-query", "--show", "--showformat=${Version}", "nginx"]
    version = subprocess.run(query, capture_output=True, text=True, check=False).stdout  # noqa: S603 - no input
    if not version or resists_rapid_reset(version):
        return None
    return (
        f"nginx {version} may lack the fix of HTTP/2 rapid reset (CVE-2023-44487), with which one caller can use up "
        "the processors: expected Debian 12's 1.22.1-9+deb12u11, or 1.25.3, or later"
    )


def resists_rapid_reset(version: str) -> bool:
    """Return whether a version of Debian's package has the fix: 1.25.3, or Debian 12's update 11, or later."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)(?:-9\+deb12u(\d+))?", version)
    if found is None:
        return False
    *number, update = (int(part or 0) for part in found.groups())
    return number >= [1, 25, 3] or (number == [1, 22, 1] and update >= 11)
