"""The one writable folder of a run: sockets, generated configuration, temporary files."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from lightbox.base.errors import StartError
from lightbox.base.machine.shared_files import hold, hold_new
from lightbox.base.machine.temporary_storage import is_full, temporary_folder

SOCKET_PATH_LIMIT = 100
"""A unix socket's path has 108 bytes on Linux; some are reserved for suffixes."""


PREFIX, LOCK = "lightbox-", "lock"
"""Prefix of a folder's name, and the name of its lock file; the process holds the lock as long as it lives."""
LONGEST_SOCKET = "model_server_63.sock"
"""A socket name as long as the longest one."""


MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - each run has a folder of its own there
"""Files in this folder are in memory, and never on a disk."""
SHORT_FOLDERS = ("/tmp", MEMORY_FOLDER)  # noqa: S108 - each run has a folder of its own there
"""Folders for sockets when the run directory's path is too long."""
CLAIMS = "127.76.66.1"
"""The address of the loopback interface at which ports are reserved."""
START_BYTES = 1 << 20
"""Bytes that a start writes: configurations, the plan, files of the children."""


class RunDirError(StartError):
    """The run directory cannot be made; the message is one sentence that names it."""


class RunDir:
    """A new folder under TMPDIR, removed by ``remove``; the next start removes that of a killed process."""

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        self._more: list[tuple[Path, int]] = []
        parent = temporary_folder()
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).absolute()
            self._lock = hold_new(self.path / LOCK)
        except OSError as error:
            if is_full(error):
                raise RunDirError(_too_full(parent)) from None
            raise RunDirError(
                f"TMPDIR: Lightbox needs a writable folder, and {parent} is not one: {error.strerror}"
            ) from None
        _remove_abandoned(self.path.parent)
        self._find_room(parent)
        self._sockets = self._find_sockets()

    def _find_room(self, parent: str) -> None:
        """Write as many bytes as a start needs, and remove them."""
        try:
            (self.path / "room").write_bytes(bytes(START_BYTES))
            (self.path / "room").unlink()
        except OSError as error:
            self.remove()
            if is_full(error):
                raise RunDirError(_too_full(parent)) from None
            raise RunDirError(f"TMPDIR: {parent} cannot be written to: {error.strerror}") from None

    def _find_sockets(self) -> Path:
        if len(os.fsencode(self.path / LONGEST_SOCKET)) <= SOCKET_PATH_LIMIT:
            return self.path
        for parent in SHORT_FOLDERS:
            with suppress(OSError):
                return self._add(parent)
        self.remove()
        raise RunDirError(
            f"TMPDIR: {self.path.parent} is too long a path for unix sockets, and none of {', '.join(SHORT_FOLDERS)}"
            " can be written to"
        )

    def _add(self, parent: str) -> Path:
        """Make a folder elsewhere that is removed with this one."""
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._more.append((folder, hold_new(folder / LOCK)))
        _remove_abandoned(folder.parent)
        return folder

    def socket_path(self, name: str) -> Path:
        """Return the path for a unix socket."""
        return self._sockets / f"{name}.sock"

    def make_folder_in_memory(self, name: str, size: int) -> Path:
        """Make a folder, in memory if ``size`` bytes are free there; return its path. May be called once.

        The run directory has a folder or link of that name. It is removed with the run directory.
        """
        link = self.path / name
        with suppress(OSError):
            if shutil.disk_usage(MEMORY_FOLDER).free >= size:
                folder = self._add(MEMORY_FOLDER)
                link.symlink_to(folder, target_is_directory=True)
                return folder
        link.mkdir(mode=0o700)
        return link

    def claim(self, port: int) -> bool:
        """Reserve a free port, so that no other starting Lightbox takes it."""
        if not port_is_free(port):
            return False
        try:
            self._claims.append(claimed(port))
        except OSError:
            return False
        return True

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and its content, and release the reserved ports."""
        while self._claims:
            self._claims.pop().close()
        for folder, lock in [(self.path, self._lock), *self._more]:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _too_full(folder: str) -> str:
    free = shutil.disk_usage(folder).free
    return f"TMPDIR: a start needs {START_BYTES:,} bytes, and {folder} has {free:,} bytes free"


def _remove_abandoned(parent: Path) -> None:
    """Remove the run directories of killed processes, whose locks are free."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # another user's, or removed meanwhile
            if (descriptor := hold(lock, flags=os.O_RDWR | os.O_NOFOLLOW)) is not None:
                shutil.rmtree(lock.parent, ignore_errors=True)
                os.close(descriptor)


def claimed(port: int, address: str = CLAIMS) -> socket.socket:
    """Return what reserves a port until it is closed; raise OSError if another process has reserved it, or listens.

    It is bound and does not listen, so that servers that reuse addresses can: only another reservation fails. Unlike a
    file or an abstract name, a reservation that another user takes first is the port itself.
    """
    claim = socket.socket()
    try:
        claim.bind((address, port))
    except OSError:
        claim.close()
        raise
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return claim


def port_is_free(port: int, host: str | None = None) -> bool:
    """Return whether a server could listen on a port of an address, or of all interfaces."""
    family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or "0.0.0.0", port))  # noqa: S104 - nothing is served, the socket is closed at once
        except OSError as error:
            return error.errno == errno.EADDRNOTAVAIL  # the start says so
        return True
