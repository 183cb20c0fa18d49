"""Describes the machine and the versions of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from benchmark.servers import REPOSITORY, VENV, model_server_kind

PACKAGES = ("tensorflow-cpu", "openvino", "grpcio", "pillow", "gunicorn")
RIVAL_PACKAGES = ("fastapi", "uvicorn", "litserve", "bentoml", "onnxruntime")


def machine() -> dict[str, Any]:
    """Return a description of the machine: processor, instructions, cores, memory, kernel, load."""
    return {
        "processor": _cpuinfo("model name") or platform.machine(),
        "instructions": _instructions(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "load_before": [round(value, 2) for value in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    """Return the versions of all measured software, and Lightbox's commit as ``lightbox``."""
    here = {distribution.name.lower(): distribution.version for distribution in metadata.distributions()}
    rivals = {
        distribution.name.lower(): distribution.version
        for folder in VENV.glob("lib/python*/site-packages")
        for distribution in metadata.distributions(path=[str(folder)])
    }
    found = {"python": platform.python_version(), "nginx": _first_line(["nginx", "-v"]).rpartition("/")[2]}
    found |= {name: here.get(name, "") for name in PACKAGES} | {name: rivals.get(name, "") for name in RIVAL_PACKAGES}
    found["lightbox"] = commit(REPOSITORY)
    found["model server"] = model_server_kind()
    return {name: version for name, version in found.items() if version}


def commit(checkout: Path) -> str:
    """Return the commit of a checkout, with ``-dirty`` behind it if files differ from it."""
    return _first_line(["git", "-C", str(checkout), "describe", "--always", "--dirty"])


def _cpuinfo(field: str) -> str:
    """Return a field of /proc/cpuinfo for the first core, empty if it is missing."""
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")


def _instructions() -> str:
    """Return the widest instruction set that engines use; INT8 and the resize use VNNI."""
    flags = _cpuinfo("flags").split()
    names = {"avx512_vnni": "AVX-512 with VNNI", "avx512f": "AVX-512", "avx2": "AVX2"}
    return next((name for flag, name in names.items() if flag in flags), platform.machine())


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed commands
    except OSError:
        return ""
    return next(iter((done.stdout or done.stderr).splitlines()), "")
