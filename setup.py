"""What pyproject.toml cannot say: wheels carry the resize in C, compiled for one platform and any Python."""

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
    """Adds the library, by the compiler that ``CC`` names or ``cc``; without one Pillow resizes, to the same pixels."""

    def run(self) -> None:
        """Compile where files are copied to; an editable installation has what ``make native`` made."""
        super().run()
        if self.editable_mode:
            return
        source = Path(self.build_lib, "lightbox", "images", "native_resize.c")
        command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS]
        try:
            subprocess.run([*command, "-o", source.with_name("libresize.so.1"), source, "-lm"], check=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError) as problem:
            print(f"the native resize is not compiled, Pillow takes its place: {problem}")


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
