"""What pyproject.toml cannot say: wheels carry what is written in C, compiled for one platform and any Python."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

# Those of scripts/build_native.sh, which says why, without what makes another compiler's warning an error.
FLAGS = ("-O3", "-ffp-contract=off", "-shared", "-fPIC")


class BuildPy(build_py):
    """Adds the library, by the compiler that ``CC`` names or ``cc``; without one Pillow and Python do the same."""

    def run(self) -> None:
        """Compile where files are copied to; an editable installation has what ``make native`` made."""
        super().run()
        if self.editable_mode:
            return
        native = Path(self.build_lib, "lightbox", "model_runtime", "native")
        command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, "-o", native / "liblightbox.so.1"]
        try:
            subprocess.run([*command, *sorted(native.glob("*.c")), "-lm"], check=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError) as problem:
            print(f"the library is not compiled, Pillow and Python take its place: {problem}")


class BdistWheel(bdist_wheel):
    """Names no version of Python: ctypes loads the library."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the parts of the wheel's name: Python, its ABI, the platform."""
        return "py3", "none", super().get_tag()[2]


class Platform(Distribution):
    """Belongs to one platform."""

    def has_ext_modules(self) -> bool:
        """Return whether anything is compiled."""
        return True


setup(distclass=Platform, cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})
