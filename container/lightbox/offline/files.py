"""Files of a folder or of a prefix in S3, with one interface to list, read and write them."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn
from uuid import uuid4

from typing_extensions import override

from lightbox.core.errors import TooLarge
from lightbox.machine.cores import available_cores

S3_SCHEME = "s3://"
READERS = max(8, 4 * available_cores())
"""Threads that read pictures: S3 and network file systems take tens of milliseconds for each."""

READS = 2
"""How often an object is read whose content breaks off."""

MAX_BODY = "LIGHTBOX_MAX_BODY_MB"
"""The setting that limits a request to an endpoint, and a picture here."""


def refuse(most: int) -> NoReturn:
    """Raise an endpoint's error for a picture of more than ``most`` bytes."""
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

    @abstractmethod
    def put(self, name: str, write: Callable[[IO[bytes]], None], new: bool = False) -> None:
        """Write a file atomically. With ``new``, an existing file raises FileExistsError."""

    @abstractmethod
    def move(self, name: str, new_name: str) -> None:
        """Rename a file. A kill in between leaves one name or both."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""


def split(place: str) -> tuple[Files, str]:
    """Return the files of the parent folder or prefix of a path or ``s3://`` address, and the name in it."""
    parent, _, name = place.rstrip("/").rpartition("/")
    if place.startswith(S3_SCHEME):
        if "/" not in place.removeprefix(S3_SCHEME).rstrip("/"):
            return at(place), ""
        return at(f"{parent}/"), name
    return at(parent or ("/" if place.startswith("/") else ".")), name


def at(place: str) -> Files:
    """Return the files below a folder or an ``s3://`` prefix."""
    if place.startswith(S3_SCHEME):
        bucket, _, prefix = place.removeprefix(S3_SCHEME).partition("/")
        return S3(bucket, prefix)
    return Folder(Path(place))


class Folder(Files):
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the absolute path, for processes with another working directory."""
        return Folder, (self.root.absolute(),)

    @override
    def names(self, below: str = "") -> Iterator[str]:
        root = self.root / below
        failed: list[OSError] = []
        for folder, folders, names in os.walk(root, onerror=failed.append):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = Path(folder).relative_to(self.root)
            names += [name for name in folders if Path(folder, name).is_symlink()]
            yield from (str(inside / name) for name in sorted(names) if not name.startswith("."))
        for error in failed:
            if root.is_dir():
                raise error

    @override
    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    @override
    def read(self, name: str, most: int) -> bytes:
        path = self.root / name
        about = path.stat()
        if stat.S_ISFIFO(about.st_mode):  # to open one waits for a writer
            raise OSError(errno.EINVAL, "expected a file, got a pipe")
        if about.st_size > most:
            refuse(most)
        return path.read_bytes()

    @override
    def open(self, name: str) -> IO[bytes]:
        return (self.root / name).open("rb")

    @override
    def put(self, name: str, write: Callable[[IO[bytes]], None], new: bool = False) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_name(f".{path.name}.new")  # hidden: no part, and no source
        try:
            with unfinished.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if new and path.exists():
                raise FileExistsError(f"{path} is there already")
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    @override
    def move(self, name: str, new_name: str) -> None:
        (self.root / new_name).parent.mkdir(exist_ok=True)
        (self.root / name).replace(self.root / new_name)

    @override
    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)


class S3(Files):
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
