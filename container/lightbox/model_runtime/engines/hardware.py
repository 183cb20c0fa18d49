"""The share of the machine for a model, and the precision of its computation."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

INT8 = "int8"
PRECISIONS = ("f32", "bf16", INT8)

_PROCESSORS = Path("/proc/cpuinfo")
_OF_A_KIND = re.compile(
    r"(?:vendor_id|cpu family|model|model name|stepping|flags|"
    r"Features|CPU implementer|CPU architecture|CPU variant|CPU part)"
    r"\s*:.*"
)
"""The lines that identify a kind of processor, on x86-64 and on arm64; the others change over time."""


@dataclass(frozen=True)
class Hardware:
    """The share of the machine for a model, and the precision of its computation."""

    threads: int
    streams: int
    """Concurrent calls, which share the threads."""
    precision: str = "f32"
    cache_folder: str = ""
    """The folder of cached facts about models; empty for none."""

    @classmethod
    def shared(cls, cores: int, for_one_call: int, cache_folder: str) -> Hardware:
        """Return these cores for as many concurrent calls as fit, if each takes ``for_one_call`` threads."""
        return cls(cores, max(1, cores // for_one_call), cache_folder=cache_folder)


@cache
def processor() -> str:
    """Return eight digits that identify the kind of this processor, including its extensions."""
    try:
        first = _PROCESSORS.read_text().partition("\n\n")[0]
    except OSError:
        first = ""
    kind = [platform.machine(), *filter(_OF_A_KIND.fullmatch, first.splitlines())]
    return hashlib.sha256("\n".join(kind).encode()).hexdigest()[:8]
