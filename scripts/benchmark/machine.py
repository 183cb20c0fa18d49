"""Describes the machine and the commit of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from benchmark.servers import REPOSITORY, model_server
from lightbox.model_runtime.cores import available_cores


def measured_with() -> str:
    """Return the date, commit, machine and model server of a measurement that begins now."""
    busy = " Other programs ran: quote only ratios of CPU time." if os.getloadavg()[0] > 1 else ""
    return (
        f"*Measured {datetime.now(UTC):%Y-%m-%d}, commit {commit(REPOSITORY)}, on {processor()} ({_instructions()}), "
        f"{available_cores()} cores, {model_server()}.{busy}*"
    )


def processor() -> str:
    """Return the name of the processor."""
    return _cpuinfo("model name") or platform.machine()


def commit(checkout: Path) -> str:
    """Return the commit of a checkout, with ``-dirty`` behind it if files differ from it."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - git


def _cpuinfo(field: str) -> str:
    """Return a field of /proc/cpuinfo for the first core, empty if it is missing."""
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")


def _instructions() -> str:
    """Return the widest instruction set that engines use: AMX for bf16 and INT8, VNNI for INT8 and the resize."""
    flags = _cpuinfo("flags").split()
    names = {"amx_bf16": "AMX", "avx512_vnni": "AVX-512 with VNNI", "avx512f": "AVX-512", "avx2": "AVX2"}
    return next((name for flag, name in names.items() if flag in flags), platform.machine())
