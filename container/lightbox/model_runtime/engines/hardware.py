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
LEVELS = ("all", "extended", "basic")
"""How far ONNX Runtime optimises a graph."""

_PROCESSORS = Path("/proc/cpuinfo")
_BF16 = {"amx_bf16", "avx512_bf16", "bf16"}
"""The extensions for bf16, on x86-64 and on arm64."""
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
    level: str = LEVELS[0]

    @classmethod
    def shared(cls, cores: int, for_one_call: int, cache_folder: str) -> Hardware:
        """Return these cores for as many concurrent calls as fit, if each takes ``for_one_call`` threads."""
        return cls(cores, max(1, cores // for_one_call), cache_folder=cache_folder)


@cache
def processor() -> str:
    """Return eight digits that identify the kind of this processor, including its extensions."""
    kind = [platform.machine(), *filter(_OF_A_KIND.fullmatch, _first_processor().splitlines())]
    return hashlib.sha256("\n".join(kind).encode()).hexdigest()[:8]


@cache
def has_bf16() -> bool:
    """Return whether this processor multiplies bf16 itself."""
    return not _BF16.isdisjoint(_first_processor().split())


def _first_processor() -> str:
    try:
        return _PROCESSORS.read_text().partition("\n\n")[0]
    except OSError:
        return ""
