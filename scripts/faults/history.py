"""The append-only record of a run: a line of JSON for each thing sent, each thing that came, and each fault.

``run``        the beginning: what serves; on a busy machine limits of time are longer by the factor ``patience``
``answer``     a key, with ``text`` and ``numbers``: an answer, before the first line that has its key
``rest``       a name, with the key ``answer``: what a server at rest answers
``sent``       a request's number, its ``name``, what it goes ``via``, the statuses ``expected``, how its connection
               may end (``ends``), the name of the answer at rest that a 200 is ``like``, the ``limit`` of its seconds
``came``       a request's number, with ``status``, whether to ``retry``, the key ``answer``, the number ``of`` the
               request that the response names; or with ``end``, how its connection ended; ``reused`` connections
               were open before
``fault``      a fault's number and ``name``: it begins. It may end connections (``cuts``) and processes (``ends``) of
               these kinds, and cause these statuses (``may``)
``over``       a fault's number: nothing is at fault any more
``back``       all processes are there again
``well``       all is answered again; of these kinds processes ``ended``
``forbidden``  a fault that this machine cannot do, and ``why``
``left``       a caller sent something and did not wait
``memory``     bytes of each process, without files that it maps
``end``        each request has its ``came``; the server's exit code, and the processes that it ``left``

Each line has its time ``at``, in seconds of a clock that never jumps.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from faults.answers import Answer

Line = Mapping[str, Any]


class History:
    """A file that threads append to."""

    def __init__(self, path: Path, take: Callable[[Line], None] = lambda line: None) -> None:
        """``take`` gets each line that is written."""
        self._take = take
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._numbers = count()
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the time of a line written now."""
        return round(self._epoch + time.monotonic(), 4)

    def number(self) -> int:
        """Return a new number, for a request or a fault."""
        return next(self._numbers)

    def note(self, **line: object) -> Line:
        """Append a line and return it."""
        with self._lock:
            return self._append(line)

    def _append(self, line: dict[str, object]) -> Line:
        line["at"] = self.now()
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._take(line)
        return line

    def at_rest(self, name: str, answer: Answer) -> None:
        """Append what a server at rest answers."""
        self.note(rest=name, answer=self.key(answer))

    def key(self, answer: Answer) -> str:
        """Return the key of an answer, which is written when it comes first."""
        text = json.dumps(answer)
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        with self._lock:
            if key not in self._known:
                self._known.add(key)
                self._append({"answer": key, "text": answer.text, "numbers": answer.numbers})
        return key

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a history; the last one can be torn, where the run was killed."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
