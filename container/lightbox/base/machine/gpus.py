"""The GPUs of this machine or container, and which one a process gets."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

VISIBLE, INJECTED = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"
"""The variables of CUDA and of the container runtime that select GPUs."""
DRIVER = Path("/proc/driver/nvidia/gpus")
"""The driver's folder of GPUs."""
SECONDS = 20.0
"""How long nvidia-smi may take; it waits for GPUs that sleep."""


def gpu_names(environ: Mapping[str, str], driver: Path = DRIVER) -> list[str]:
    """Return CUDA's names of the GPUs: numbers, or entries of CUDA_VISIBLE_DEVICES."""
    visible = environ.get(VISIBLE)
    if visible is not None:
        return _until_no_device(visible)
    injected = environ.get(INJECTED, "all").strip()
    if injected in ("", "none", "void"):
        return []
    # CUDA numbers the visible GPUs: in a container with GPUs 2 and 3, they are 0 and 1.
    count = _count(environ, driver) if injected == "all" else len(_names(injected))
    return [str(number) for number in range(count)]


def gpu_environ(index: int, gpus: list[str]) -> dict[str, str]:
    """Return the variable that assigns model server ``index`` its GPU; empty unless there are several."""
    return {VISIBLE: gpus[index % len(gpus)]} if len(gpus) > 1 else {}


def _names(value: str) -> list[str]:
    return [name for part in value.split(",") if (name := part.strip())]


def _until_no_device(visible: str) -> list[str]:
    """Return the entries up to the first number without a device, as CUDA does."""
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
