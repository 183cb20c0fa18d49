"""Files and folders that the user may not read, and what of a file may be read."""

from __future__ import annotations

import codecs
import errno
import os
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from lightbox.model_runtime.deadline import check_deadline
from lightbox.model_runtime.wire.status import LACKS

MOST_TEXT, MOST_OPTIONS = 16 << 20, 1 << 20
"""Most bytes of a model's text, and of a text that is a list of options."""


def pass_lack(error: Exception) -> None:
    """Raise an error again if this process lacks descriptors or memory: the file that it names is not to blame."""
    if isinstance(error, OSError) and error.errno in LACKS:
        raise error


def is_file(path: Path) -> bool:
    """Return whether a path is a file that the user can reach; unlike ``Path.is_file`` it never raises."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def is_dir(path: Path) -> bool:
    """Return whether a path is a folder that the user can reach; unlike ``Path.is_dir`` it never raises."""
    try:
        return path.is_dir()
    except PermissionError:
        return False


def open_file(path: Path) -> BinaryIO:
    """Open a regular file to read it.

    Raises OSError, also for pipes and devices, which may never end, and the error of ``check_deadline``.
    """
    check_deadline()
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file. Raises OSError, also for more than ``most`` bytes."""
    with open_file(path) as file:
        if len(content := file.read(most + 1)) > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return content


def read_text_file(path: Path, most: int) -> str:
    """Return the text of a regular file in UTF-8, with or without a byte order mark, which editors on Windows write.

    Raises as ``read_file``, and OSError for another encoding.
    """
    content = read_file(path, most)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise OSError(errno.EILSEQ, "it is UTF-16, as PowerShell writes it: save it as UTF-8", str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8: {error.reason} at byte {error.start}", str(path)) from None


def access_problem(folder: Path) -> str | None:
    """Return a sentence if the user may not read a folder or the path to it, None if it can be read or is none.

    Raises OSError as ``pass_lack``.
    """
    try:
        if not folder.is_dir():
            return None
        with os.scandir(folder):
            pass
        (folder / ".").stat()  # a folder may be listed without access to its files
    except PermissionError:
        return f"{folder} cannot be read by the user {os.geteuid()}, who runs Lightbox: let that user read it"
    except OSError as error:
        pass_lack(error)
        return f"{folder} cannot be read: {error.strerror}"
    return None
