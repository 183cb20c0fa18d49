"""Files of a folder or of a prefix in S3, with one interface to list, read and write them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import IO, Any, NoReturn
from uuid import uuid4

from typing_extensions import override

from lightbox.base.errors import TooLarge
from lightbox.model_runtime.cores import available_cores

S3_SCHEME = "s3://"
READERS = max(8, 4 * available_cores())
"""Threads that read images: S3 and network file systems take tens of milliseconds for each."""

READS = 2
"""How often an object is read whose content breaks off."""

MAX_BODY = "LIGHTBOX_MAX_BODY_MB"
"""The setting that limits a request to an endpoint, and an image here."""


def refuse(most: int) -> NoReturn:
    """Raise an endpoint's error for an image of more than ``most`` bytes."""
    raise TooLarge(f"the request body is larger than {MAX_BODY}={most >> 20} MiB")


class Files(ABC):
    """The files below a folder or a prefix. Names are relative, with slashes. All methods raise OSError."""

    @abstractmethod
    def names(self, below: str = "") -> Iterator[str]:
        """Yield the names below a folder, recursively and in a stable order, without hidden ones; none below a file.

        Links to folders are not followed. Folders that cannot be read raise OSError at the end.
        """

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name."""

    @abstractmethod
    def read(self, name: str, most: int) -> bytes:
        """Return a file's content. Raises TooLarge, before reading, for more than ``most`` bytes."""

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading in any order. A file of S3 is downloaded first."""


class Written(Files):
    """Files that a run writes."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Keep other runs out, where that is possible. Raises BlockingIOError if another run is in."""

    @abstractmethod
    def put(self, name: str, write: Callable[[IO[bytes]], None], new: bool = False) -> None:
        """Write a file atomically. With ``new``, an existing file raises FileExistsError."""

    @abstractmethod
    def move(self, name: str, new_name: str) -> None:
        """Rename a file. A kill in between leaves one name or both."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""


def split(place: str) -> tuple[str, str]:
    """Return the parent folder or prefix of a path or ``s3://`` address, and the name in it."""
    parent, _, name = place.rstrip("/").rpartition("/")
    if place.startswith(S3_SCHEME):
        return (f"{parent}/", name) if "/" in place.removeprefix(S3_SCHEME).rstrip("/") else (place, "")
    return parent or ("/" if place.startswith("/") else "."), name


def at(place: str, outside: bool = True) -> Files:
    """Return the files below a folder or an ``s3://`` prefix; ``outside`` as Folder has it."""
    if place.startswith(S3_SCHEME):
        return S3.of(place)
    return Folder(Path(place), outside)


class Outside(OSError):
    """A list or a link names something outside the source."""

    def __init__(self, where: str = "is outside the source's folder") -> None:
        super().__init__(f"it {where}; --outside reads it too")


class Folder(Files):
    """A folder of this machine. Only with ``outside`` names and links may lead out of it."""

    def __init__(self, root: Path, outside: bool = True) -> None:
        self.root, self._outside = root, outside

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the absolute path, for processes with another working directory."""
        return Folder, (self.root.absolute(), self._outside)

    @override
    def names(self, below: str = "") -> Iterator[str]:
        root = self.root / below
        failed: list[OSError] = []
        remaining = [root]
        while remaining:  # without recursion: folders may be thousands deep
            folder = remaining.pop()
            try:
                entries = ((entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(folder))
                visible = sorted(entry for entry in entries if not entry[0].startswith("."))
            except OSError as error:
                failed.append(error)
                continue
            inside = folder.relative_to(self.root)
            yield from (str(inside / name) for name, is_folder in visible if not is_folder)
            remaining += [folder / name for name, is_folder in reversed(visible) if is_folder]
        if failed and root.is_dir():
            raise failed[0]

    @override
    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    @override
    def read(self, name: str, most: int) -> bytes:
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                refuse(most)
            content = file.read(size + 1)
        if len(content) > size:
            raise OSError(errno.EBUSY, "grows while it is read")
        return content

    @override
    def open(self, name: str) -> IO[bytes]:
        path = self.root / name
        try:
            # This opens neither a device nor a pipe, and from here on nobody can change what is meant.
            handle = os.open(path, os.O_PATH)
        except OSError:
            self._check(os.path.realpath(path))  # else the error would tell what is there
            raise
        try:
            place = Path(f"/proc/self/fd/{handle}")
            self._check(str(place.readlink()))
            if not stat.S_ISREG(mode := os.fstat(handle).st_mode):
                kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
                raise OSError(errno.EINVAL, f"expected a file, got {kind}")
            try:
                return place.open("rb")
            except OSError as error:
                raise type(error)(error.errno, error.strerror, str(path)) from None
        finally:
            os.close(handle)

    def _check(self, place: str) -> None:
        if not (self._outside or place.startswith(f"{self._real.rstrip('/')}/")):
            raise Outside

    @cached_property
    def _real(self) -> str:
        return os.path.realpath(self.root)


SCRATCH = ".unfinished"
"""The name of a file that is being written: hidden, so no part and no source."""


class OwnFolder(Folder, Written):
    """The folder ``root`` of a target, and the folder of its parts in it, while ``locked``.

    Other users may write both. So no link in them is followed, each name belongs to a folder that is open, and what is
    there counts only if it belongs to this user. On a volume that maps owners this is the one of what this user makes.
    """

    def __init__(self, root: Path, parts: str) -> None:
        super().__init__(root)
        self._parts = parts

    @override
    @contextmanager
    def locked(self) -> Iterator[None]:
        with ExitStack() as cleanup:
            cleanup.callback(os.close, outer := os.open(self.root, os.O_DIRECTORY))
            with suppress(FileExistsError):
                os.mkdir(self._parts, dir_fd=outer)
            try:
                inner = os.open(self._parts, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
            except NotADirectoryError:
                raise OSError(errno.ELOOP, f"{self._parts} is a link, or no folder") from None
            cleanup.callback(os.close, inner)
            fcntl.flock(inner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._outer, self._inner = outer, inner
            cleanup.callback(self._clean)
            with self._new() as file:
                self._owner = os.fstat(file.fileno()).st_uid
            self._check_owner(outer, inner)
            yield

    @override
    def exists(self, name: str) -> bool:
        folder, base = self._at(name)
        with suppress(FileNotFoundError):
            return bool(os.stat(base, dir_fd=folder, follow_symlinks=False))
        return False

    @override
    def open(self, name: str) -> IO[bytes]:
        folder, base = self._at(name)
        with ExitStack() as at_failure:
            descriptor = os.open(base, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            at_failure.callback(os.close, descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, f"expected a file: {name}")
            self._check_owner(folder, descriptor)
            at_failure.pop_all()
        return os.fdopen(descriptor, "rb")

    @override
    def put(self, name: str, write: Callable[[IO[bytes]], None], new: bool = False) -> None:
        with self._new() as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if new and self.exists(name):
            raise FileExistsError(f"{name} is there already")
        folder, base = self._at(name)
        os.rename(SCRATCH, base, src_dir_fd=self._inner, dst_dir_fd=folder)

    @override
    def move(self, name: str, new_name: str) -> None:
        (folder, base), (new_folder, new_base) = self._at(name), self._at(new_name)
        os.rename(base, new_base, src_dir_fd=folder, dst_dir_fd=new_folder)

    @override
    def delete(self, name: str) -> None:
        folder, base = self._at(name)
        with suppress(FileNotFoundError):
            os.unlink(base, dir_fd=folder)

    def _new(self) -> IO[bytes]:
        """Open a new file: one of this name is from a killed run, or planted."""
        self.delete(f"{self._parts}/{SCRATCH}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.fdopen(os.open(SCRATCH, flags, 0o666, dir_fd=self._inner), "wb")

    def _clean(self) -> None:
        with suppress(OSError):
            self.delete(f"{self._parts}/{SCRATCH}")
            os.rmdir(self._parts, dir_fd=self._outer)  # where it holds nothing

    def _at(self, name: str) -> tuple[int, str]:
        """Return the folder of a name, and the name in it."""
        folder, _, base = name.rpartition("/")
        return (self._inner if folder else self._outer), base

    def _check_owner(self, folder: int, descriptor: int) -> None:
        around, about = os.fstat(folder), os.fstat(descriptor)
        is_shared = around.st_mode & 0o022 or around.st_uid not in (self._owner, 0)
        if is_shared and about.st_uid != self._owner:
            raise PermissionError(errno.EPERM, "another user, who may write there, has made the file or folder")


class S3(Written):
    """A prefix of a bucket, by boto3 with the environment's credentials."""

    def __init__(self, bucket: str, prefix: str) -> None:
        import boto3
        from botocore.config import Config
        from botocore.handlers import validate_bucket_name

        self._bucket = bucket
        self._prefix = f"{prefix.rstrip('/')}/" if prefix else ""
        with _as_os_errors(f"{S3_SCHEME}{bucket}/{prefix}"):
            validate_bucket_name({"Bucket": bucket})
            self._client = boto3.client("s3", config=Config(max_pool_connections=READERS))

    @classmethod
    def of(cls, place: str) -> S3:
        """Return the prefix of an ``s3://`` address."""
        bucket, _, prefix = place.removeprefix(S3_SCHEME).partition("/")
        return cls(bucket, prefix)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address: each process makes its own client, once."""
        return _s3, (self._bucket, self._prefix)

    @override
    def names(self, below: str = "") -> Iterator[str]:
        prefix = self._prefix + (f"{below.rstrip('/')}/" if below else "")
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        with self._failing(below):
            for page in pages:
                for entry in page.get("Contents", []):
                    name = entry["Key"].removeprefix(self._prefix)
                    if not any(part.startswith(".") for part in name.split("/")) and not name.endswith("/"):
                        yield name

    @override
    def exists(self, name: str) -> bool:
        try:
            with self._failing(name):
                self._client.head_object(**self._of(name))
        except FileNotFoundError:
            return False
        return True

    @override
    def read(self, name: str, most: int) -> bytes:
        from botocore.exceptions import BotoCoreError

        with self._failing(name, _OF_ONE_OBJECT):
            for _ in range(READS):
                found = self._client.get_object(**self._of(name))
                with closing(found["Body"]) as body, suppress(BotoCoreError):
                    if found["ContentLength"] > most:
                        refuse(most)
                    return bytes(body.read())
        raise OSError("cannot be read to the end")

    @override
    def open(self, name: str) -> IO[bytes]:
        with ExitStack() as at_failure, self._failing(name, _OF_ONE_OBJECT):
            file = at_failure.enter_context(tempfile.TemporaryFile())
            self._client.download_fileobj(*self._of(name).values(), file)
            file.seek(0)
            at_failure.pop_all()
        return file

    @override
    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    @override
    def put(self, name: str, write: Callable[[IO[bytes]], None], new: bool = False) -> None:
        with tempfile.TemporaryFile() as file, self._failing(name):
            write(file)
            file.seek(0)
            if new:
                self._put_new(name, file)
            else:
                self._client.upload_fileobj(file, *self._of(name).values())

    def _put_new(self, name: str, file: IO[bytes]) -> None:
        """Put a new object. boto3 repeats a PUT whose response is lost, and S3 refuses it: the mark shows that.

        A store that knows no such condition is asked for the object first, which does not keep two runs apart.
        """
        mark = {"lightbox-put": uuid4().hex}
        try:
            with self._failing(name):
                self._client.put_object(**self._of(name), Body=file, IfNoneMatch="*", Metadata=mark)
        except FileExistsError:
            with self._failing(name):
                found = self._client.head_object(**self._of(name))
            if found["Metadata"] != mark:
                raise
        except AwsError as error:
            about = getattr(error.__cause__, "response", {}).get("ResponseMetadata", {})
            if about.get("HTTPStatusCode") not in _WITHOUT_CONDITIONS:
                raise
            if self.exists(name):
                raise FileExistsError(f"{S3_SCHEME}{self._bucket}/{self._prefix}{name} is there already") from error
            file.seek(0)
            with self._failing(name):
                self._client.upload_fileobj(file, *self._of(name).values())

    @override
    def move(self, name: str, new_name: str) -> None:
        with self._failing(name):
            self._client.copy(self._of(name), *self._of(new_name).values())
        self.delete(name)

    @override
    def delete(self, name: str) -> None:
        with self._failing(name):
            self._client.delete_object(**self._of(name))

    def _of(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + name}

    def _failing(self, name: str, of_one_object: Collection[str] = ()) -> AbstractContextManager[None]:
        return _as_os_errors(f"{S3_SCHEME}{self._bucket}/{self._prefix}{name}", of_one_object)


@cache
def _s3(bucket: str, prefix: str) -> S3:
    return S3(bucket, prefix)


class Denied(OSError):
    """S3 denies one object, or each of them."""


class AwsError(OSError):
    """S3 refuses a call or cannot be reached; the message names the call and the reason."""


_WITHOUT_CONDITIONS = (400, 405, 501)
"""Statuses of stores that know no PUT with a condition."""
_DENIED = ("AccessDenied", "403")
_OF_ONE_OBJECT = (*_DENIED, "InvalidObjectState", "InvalidRequest", "KeyTooLongError")
"""Error codes of reading one object only: denied, archived, encrypted with a caller's key, a name that is too long."""


@contextmanager
def _as_os_errors(address: str, of_one_object: Collection[str] = ()) -> Iterator[None]:
    """Raise FileNotFoundError, FileExistsError, Denied, OSError for one object, or AwsError for what boto3 raises.

    The messages of reading one object leave its name out, so that they can be counted.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError
    from s3transfer.exceptions import RetriesExceededError, S3DownloadFailedError

    try:
        yield
    except ClientError as error:
        about = error.response.get("Error", {})
        if about.get("Code") in ("404", "NoSuchKey"):
            raise FileNotFoundError("there is no such object") from error
        if about.get("Code") in of_one_object:
            why = str(about.get("Message")).replace(address.removeprefix(S3_SCHEME), "...")
            kind = Denied if about["Code"] in _DENIED else OSError
            raise kind(f"{about['Code']}: {why}") from error
        if about.get("Code") == "PreconditionFailed":
            raise FileExistsError(f"{address} is there already") from error
        raise AwsError(f"{address}: {about.get('Code')}: {about.get('Message')}") from error
    except (RetriesExceededError, S3DownloadFailedError) as error:
        raise OSError(f"the download failed: {getattr(error, 'last_exception', error)}") from error
    except (BotoCoreError, Boto3Error) as error:
        raise AwsError(f"{address}: {' '.join(str(error).split())}") from error
