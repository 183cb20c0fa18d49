"""The callers of LIGHTBOX_API_KEYS: a file with a line for each key, which has the key's hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightbox.features.access.roles import ROLES
from lightbox.telemetry.logs import log

SETTING = "LIGHTBOX_API_KEYS"
MOST_KEYS = 1000
"""Each request is compared with all of them."""
LOOK_SECONDS = 1.0
"""Between two looks at the file."""
_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH = re.compile(r"sha256:([0-9a-fA-F]{64})")
_EXPECTED = "expected a name, sha256: with 64 hexadecimal digits, and roles, such as: ci sha256:9f86… infer,metrics"


@dataclass(frozen=True)
class Caller:
    """One line: ``digest`` is the SHA-256 of the key. A name may have several keys."""

    name: str
    digest: bytes
    roles: frozenset[str]


def parse(text: str) -> list[Caller]:
    """Return the callers of a file. Raises ValueError with the line that is wrong; it quotes nothing, as who confuses
    the fields may have written a key."""
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
    if len(words) != 3:
        raise ValueError(f"{_EXPECTED}; got {len(words)} words")
    name, hashed, roles = words
    if not _NAME.fullmatch(name):
        raise ValueError("name: expected at most 64 letters, digits, '.', '_' and '-', got something else")
    if not (found := _HASH.fullmatch(hashed)):
        raise ValueError(f"hash of {name}: expected sha256: and 64 hexadecimal digits, got {len(hashed)} characters")
    if not set(roles.split(",")) <= set(ROLES):
        raise ValueError(f"roles of {name}: expected {', '.join(ROLES)}, or several with commas and no blanks")
    return Caller(name, bytes.fromhex(found[1]), frozenset(roles.split(",")))


class KeyFile:
    """The keys of a file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ValueError and OSError."""
        self._path = path
        self._seen: bytes | str = _read(path)
        self._callers = parse(_text(self._seen))

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._callers)

    def names(self) -> Iterable[str]:
        """Return the names of the file, each once."""
        return dict.fromkeys(caller.name for caller in self._callers)

    def find(self, key: bytes) -> Caller | None:
        """Return whose key it is, None for nobody's. It takes as long whichever line has it."""
        digest, found = hashlib.sha256(key).digest(), None
        for caller in self._callers:
            if hmac.compare_digest(caller.digest, digest):
                found = caller
        return found

    def follow(self) -> None:
        """Look at the file for ever, in a thread of its own: a mount that hangs holds up nobody else."""
        while True:
            time.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Take the keys of a file that has changed. One that cannot be used is told of once, and changes nothing."""
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
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe that nobody writes to would be waited for
        raise ValueError("expected a regular file, got another kind")
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"expected at most {_MOST_BYTES} bytes")
    return data


def _text(seen: bytes | str) -> str:
    """Return what a file holds. Raises ValueError for what is no UTF-8, and where ``seen`` says why it was not read."""
    if isinstance(seen, str):
        raise ValueError(seen)
    return seen.decode("utf-8-sig")  # Windows' editors begin a file with a mark
