"""The callers of LIGHTBOX_API_KEYS: a file with a line for each key, with the key's hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lightbox.base.request_context import BATCH
from lightbox.base.telemetry.logs import log
from lightbox.features.access.roles import ROLES

SETTING = "LIGHTBOX_API_KEYS"
MOST_KEYS = 1000
"""Each request is compared with all keys."""
LOOK_SECONDS = 1.0
"""Seconds between two checks of the file."""
_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH = re.compile(r"sha256:([0-9a-fA-F]{64})")
_RATE, _AT_ONCE = re.compile("rate=([1-9][0-9]{0,8})/(s|min|h)"), re.compile("at_once=([1-9][0-9]{0,5})")
_SECONDS = {"s": 1, "min": 60, "h": 3600}
_EXPECTED = "expected a name, sha256: with 64 hexadecimal digits, and roles, such as: ci sha256:9f86… infer,metrics"


@dataclass(frozen=True)
class Rate:
    """At most ``requests`` in ``seconds``."""

    requests: int
    seconds: int


@dataclass(frozen=True)
class Caller:
    """One line: ``digest`` is the SHA-256 of the key. A name may have several keys.

    ``rate`` and ``at_once`` limit its requests, None does not. With ``batch`` all have the lower priority.
    """

    name: str
    digest: bytes
    roles: frozenset[str]
    rate: Rate | None = None
    at_once: int | None = None
    batch: bool = False


def parse(text: str) -> list[Caller]:
    """Return the callers of a file. Raises ValueError with the number of a wrong line. It quotes nothing, as a confused
    line may contain a key."""
    callers: list[Caller] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not (words := line.partition("#")[0].split()):
            continue
        try:
            callers.append(_caller(words))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if not callers:
        raise ValueError(f"{_EXPECTED}; got no line with a key")
    if len(callers) > MOST_KEYS:
        raise ValueError(f"expected {MOST_KEYS} keys at most, got {len(callers)}")
    if twice := [digest for digest, count in Counter(caller.digest for caller in callers).items() if count > 1]:
        names = ", ".join(caller.name for caller in callers if caller.digest == twice[0])
        raise ValueError(f"expected a key of its own on each line, got one key for {names}")
    return callers


def _caller(words: Sequence[str]) -> Caller:
    if len(words) < 3:
        raise ValueError(f"{_EXPECTED}; got {len(words)} words")
    name, hashed, roles, *limits = words
    if not _NAME.fullmatch(name):
        raise ValueError("name: expected at most 64 letters, digits, '.', '_' and '-', got something else")
    if not (found := _HASH.fullmatch(hashed)):
        raise ValueError(f"hash of {name}: expected sha256: and 64 hexadecimal digits, got {len(hashed)} characters")
    if not set(roles.split(",")) <= set(ROLES):
        raise ValueError(f"roles of {name}: expected {', '.join(ROLES)}, or several with commas and no blanks")
    caller = Caller(name, bytes.fromhex(found[1]), frozenset(roles.split(",")))
    for limit in limits:
        if rate := _RATE.fullmatch(limit):
            caller = replace(caller, rate=Rate(int(rate[1]), _SECONDS[rate[2]]))
        elif at_once := _AT_ONCE.fullmatch(limit):
            caller = replace(caller, at_once=int(at_once[1]))
        elif limit == f"priority={BATCH}":
            caller = replace(caller, batch=True)
        else:
            expected = f"rate=N/s, N/min or N/h, at_once=N, or priority={BATCH}"
            raise ValueError(f"limits of {name}: expected {expected}, got something else")
    return caller


class KeyFile:
    """The keys of a file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ValueError and OSError."""
        self._path = path
        self._seen: bytes | str = _read(path)
        self._callers = parse(_text(self._seen))

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._callers)

    def names(self) -> Iterable[str]:
        """Return the names of the file, each once."""
        return dict.fromkeys(caller.name for caller in self._callers)

    def find(self, key: bytes) -> Caller | None:
        """Return the caller with a key, None for an unknown one, in constant time."""
        digest, found = hashlib.sha256(key).digest(), None
        for caller in self._callers:
            if hmac.compare_digest(caller.digest, digest):
                found = caller
        return found

    def follow(self) -> None:
        """Check the file forever, in a thread of its own: a hanging mount blocks only that."""
        while True:
            time.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Load the keys of a changed file. An unusable file is reported once and changes nothing."""
        try:
            seen: bytes | str = _read(self._path)
        except (OSError, ValueError) as error:
            seen = str(error)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._callers = parse(_text(seen))
        except ValueError as error:
            log(f"warning: {SETTING}: {self._path}: {error}; the keys stay as they were")
        else:
            log(f"keys: {len(self)} of {self._path}, which has changed")


def _read(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe without a writer would block
        raise ValueError("expected a regular file, got another kind")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"expected at most {_MOST_BYTES} bytes")
    return data


def _text(seen: bytes | str) -> str:
    """Return a file's text. Raises ValueError for invalid UTF-8, and with the reason if ``seen`` is one."""
    if isinstance(seen, str):
        raise ValueError(seen)
    return seen.decode("utf-8-sig")  # editors on Windows write a byte order mark
