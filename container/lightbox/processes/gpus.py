"""Which GPU each model server gets."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

VISIBLE, INJECTED = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"
"""The variables of CUDA, and of the container runtime that hands GPUs out."""
DRIVER = Path("/proc/driver/nvidia/gpus")
"""A folder for each GPU, where the driver is."""
SECONDS = 20.0
"""How long nvidia-smi may take; it waits for GPUs that sleep."""


def gpu_names(environ: Mapping[str, str], driver: Path = DRIVER) -> list[str]:
    """Return what CUDA calls the GPUs of this machine or container: numbers, or the names of CUDA_VISIBLE_DEVICES."""
    visible = environ.get(VISIBLE)
    if visible is not None:
        return _until_no_device(visible)
    injected = environ.get(INJECTED, "all").strip()
    if injected in ("", "none", "void"):
        return []
    # CUDA numbers what it finds: in a container that was given 2 and 3, these are 0 and 1.
    count = _count(environ, driver) if injected == "all" else len(_names(injected))
    return [str(number) for number in range(count)]


def gpu_environ(index: int, gpus: list[str]) -> dict[str, str]:
    """Return what tells model server ``index`` its GPU; nothing where there are not several."""
    return {VISIBLE: gpus[index % len(gpus)]} if len(gpus) > 1 else {}


def _names(value: str) -> list[str]:
    return [name for part in value.split(",") if (name := part.strip())]


def _until_no_device(visible: str) -> list[str]:
    """CUDA itself reads the list up to the first number that no device has."""
    names = _names(visible)
    ends = [at for at, name in enumerate(names) if name.startswith("-") or name == "NoDevFiles"]
    return names[: ends[0]] if ends else names


def _count(environ: Mapping[str, str], driver: Path) -> int:
    if driver.is_dir():
        return len(list(driver.iterdir()))
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return 0
    try:
        listed = subprocess.run(  # noqa: S603 - found on PATH, as the model server is
            [program, "--list-gpus"], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE))
