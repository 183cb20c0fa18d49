"""A part of the machine for the run alone: its own network, its own TMPDIR and /dev/shm."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a mount of this process
TMP_MB, MEMORY_MB = 512, 256
_NEW_MOUNTS, _NEW_NETWORK = 0x00020000, 0x40000000
NEEDED = "needs root: a network and mounts of its own"


class OwnMachine:
    """The parts that are this run's own; ``forbidden`` says why there are none."""

    def __init__(self, tmp: Path) -> None:
        self.tmp, self.forbidden = tmp, "" if os.geteuid() == 0 else NEEDED
        if self.forbidden:
            return
        if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS | _NEW_NETWORK):
            self.forbidden = f"{NEEDED}: {os.strerror(ctypes.get_errno())}"
            return
        _run("mount", "--make-rprivate", "/")
        for folder, size in ((tmp, TMP_MB), (MEMORY_FOLDER, MEMORY_MB)):
            _run("mount", "-t", "tmpfs", "-o", f"size={size}m", "none", str(folder))
        _run("ip", "link", "set", "lo", "up")

    @contextmanager
    def full(self, folder: Path) -> Iterator[None]:
        """Have no free byte in TMPDIR or /dev/shm in this block."""
        filler = folder / "filler"
        try:
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free)
            yield
        finally:
            filler.unlink()

    @contextmanager
    def losing_packets(self, one_in: int) -> Iterator[None]:
        """Lose one packet in so many of the loopback interface in this block."""
        rule = ("INPUT", "-m", "statistic", "--mode", "nth", "--every", str(one_in), "--packet", "0", "-j", "DROP")
        _run("iptables", "-A", *rule)
        try:
            yield
        finally:
            _run("iptables", "-D", *rule)


@contextmanager
def own_machine() -> Iterator[OwnMachine]:
    """Move this process there; call it before any thread starts."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="lb-") as folder:
        machine = OwnMachine(Path(folder))
        tempfile.tempdir = folder
        try:
            yield machine
        finally:
            tempfile.tempdir = before
            if not machine.forbidden:
                _run("umount", "--lazy", folder)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - our own words
