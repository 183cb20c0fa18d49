"""Limits of memory and cores, set on a process's own cgroup or on any of its parents, in both versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lightbox.base.machine import memory
from lightbox.model_runtime import cgroups, cores

MIB = 1 << 20
V2 = ("0::/a.slice/b", "cgroup2 none rw")
V1 = ("4:memory:/a.slice/b\n3:cpuacct,cpu:/a.slice/b\n1:name=systemd:/c\n0::/", "cgroup none rw,memory,cpu,cpuacct")
UNLIMITED_V1 = str((1 << 63) - 4096)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 8 GiB, 2 GiB free, and 64 cores."""
    (tmp_path / "meminfo").write_text("MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 2097152 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(cgroups, "PROCESS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(64))


def write(folder: Path, kind: tuple[str, str], files: Mapping[str, str], root: str = "/") -> None:
    """Write the files of /proc/self and of cgroups, mounted at a folder with a space in its name."""
    mount = folder / "the cgroups"
    own, after = kind
    (folder / "cgroup").write_text(f"{own}\n")
    line = f"31 23 0:28 {root} {str(mount).replace(' ', chr(92) + '040')} rw - {after}\n"
    (folder / "mountinfo").write_text(f"22 1 8:1 / / rw - ext4 /dev/root rw\n{line}")
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("kind", "files", "mib"),
    [
        (V2, {"a.slice/b/memory.max": "1073741824"}, 1024),
        (V2, {"a.slice/b/memory.max": "max", "a.slice/memory.max": str(100 * MIB)}, 100),
        (V2, {"a.slice/b/memory.max": str(300 * MIB), "memory.max": str(200 * MIB)}, 200),
        (V2, {"a.slice/b/memory.max": "max", "other/memory.max": "1"}, 8192),
        (V1, {"a.slice/b/memory.limit_in_bytes": UNLIMITED_V1}, 8192),
        (V1, {"a.slice/b/memory.limit_in_bytes": UNLIMITED_V1, "a.slice/memory.limit_in_bytes": str(100 * MIB)}, 100),
        (V1, {"c/memory.limit_in_bytes": "1"}, 8192),
    ],
)
def test_the_lowest_limit_of_the_chain_counts(
    kind: tuple[str, str], files: Mapping[str, str], mib: int, tmp_path: Path
) -> None:
    write(tmp_path, kind, files)
    assert memory.container_bytes() == mib * MIB
    assert memory.default_request_memory_mb() == max(64, mib // 4)


@pytest.mark.parametrize("root", ["/a.slice/b", "/a.slice", "/../elsewhere"])
def test_a_container_sees_a_part_of_the_tree(root: str, tmp_path: Path) -> None:
    """Docker mounts the container's cgroup; another namespace shows a path outside of what is mounted."""
    inside = "b/" if root == "/a.slice" else ""
    write(tmp_path, V2, {f"{inside}memory.max": str(100 * MIB)}, root)
    assert memory.container_bytes() == 100 * MIB


@pytest.mark.parametrize(
    ("kind", "files", "mib"),
    [
        (
            V2,
            {
                "a.slice/b/memory.max": str(1000 * MIB),
                "a.slice/b/memory.current": str(700 * MIB),
                "a.slice/b/memory.stat": f"anon 1\ninactive_file {100 * MIB}",
                "a.slice/memory.max": str(2000 * MIB),
                "a.slice/memory.current": str(1900 * MIB),
            },
            100,
        ),
        (
            V1,
            {
                "a.slice/b/memory.limit_in_bytes": str(1000 * MIB),
                "a.slice/b/memory.usage_in_bytes": str(700 * MIB),
                "a.slice/b/memory.stat": f"inactive_file 1\ntotal_inactive_file {100 * MIB}",
            },
            400,
        ),
        (V2, {}, 2048),
    ],
)
def test_what_is_left_is_the_least_of_the_chain(
    kind: tuple[str, str], files: Mapping[str, str], mib: int, tmp_path: Path
) -> None:
    write(tmp_path, kind, files)
    assert memory.available_bytes() == mib * MIB


@pytest.mark.parametrize(
    ("kind", "files", "count"),
    [
        (V2, {"a.slice/b/cpu.max": "150000 100000"}, 2),
        (V2, {"a.slice/b/cpu.max": "max 100000", "a.slice/cpu.max": "300000 100000"}, 3),
        (V1, {"a.slice/cpu.cfs_quota_us": "5000", "a.slice/cpu.cfs_period_us": "100000"}, 1),
        (V1, {"a.slice/b/cpu.cfs_quota_us": "-1", "a.slice/b/cpu.cfs_period_us": "100000"}, 64),
        (V2, {}, 64),
    ],
)
def test_the_lowest_quota_of_the_chain_counts(
    kind: tuple[str, str], files: Mapping[str, str], count: int, tmp_path: Path
) -> None:
    write(tmp_path, kind, files)
    assert cores.available_cores() == count


def test_without_cgroups_the_machine_counts(tmp_path: Path) -> None:
    assert (memory.container_bytes(), cores.available_cores()) == (8192 * MIB, 64)
    (tmp_path / "meminfo").unlink()
    assert (memory.container_bytes(), memory.available_bytes()) == (1 << 30, None)
