"""The cgroups that limit this process: its own and all parents, of version 1 and 2.

systemd's MemoryMax and CPUQuota, nested containers and Kubernetes' classes of pods set limits anywhere in the chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")


def read_text(path: Path) -> str:
    """Return a file's text without surrounding whitespace, "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def chain(controller: str) -> list[Path]:
    """Return the folders of a controller, such as memory, for this process's cgroup and each visible parent.

    A folder has the files of version 1 or of version 2; on a machine with both, only one of them has the controller.
    """
    result: list[Path] = []
    own = dict(_cgroups())
    for kind, root, mount in _mounts(controller):
        path = own.get("" if kind == "cgroup2" else controller)
        if path is None:
            continue
        # A path outside of the mounted part belongs to another namespace: only the mounted part is visible.
        inside = path.relative_to(root) if path.is_relative_to(root) else PurePosixPath()
        result += [mount / folder for folder in (inside, *inside.parents)]
    return list(dict.fromkeys(result))


def _cgroups() -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the path of this process's cgroup for each controller of version 1, and for "" that of version 2."""
    for line in read_text(PROCESS / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, PurePosixPath(path)


def _mounts(controller: str) -> Iterator[tuple[str, PurePosixPath, Path]]:
    """Yield kind, mounted part and place of each mount of cgroups that can have a controller."""
    for line in read_text(PROCESS / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
            root, mount = (_unescaped(text) for text in before.split()[3:5])
            yield kind, PurePosixPath(root), Path(mount)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
