"""The C code passes its unit tests under sanitizers: no access out of bounds, no undefined behaviour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import commands
from support.stack import REPOSITORY

TESTS = ("tests/unit/lightbox/images/test_native_resize.py", "tests/unit/lightbox/model_runtime/native")
pytestmark = pytest.mark.timeout(3600)


def sanitized(program: list[str]) -> subprocess.CompletedProcess[str]:
    """Run Python with the sanitizers' libraries preloaded."""
    found = [commands.output(["cc", f"-print-file-name={lib}.so"]).strip() for lib in ("libasan", "libubsan")]
    environ = os.environ | {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps memory until exit
        "UBSAN_OPTIONS": "halt_on_error=1",
        "NATIVE_FLAGS": "-fsanitize=address,undefined -fno-sanitize-recover=all",
        "PYTHONPATH": "container:tests:scripts",
    }
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environ.pop(name, None)
    return commands.run([sys.executable, *program], environ, REPOSITORY, patience=None)


def test_sanitizers_find_nothing() -> None:
    done = sanitized(["-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert " passed" in done.stdout


def test_they_would_find_a_write_beyond_the_end(tmp_path: Path) -> None:
    source, library = tmp_path / "wrong.c", tmp_path / "wrong.so"
    source.write_text(
        "#include <stdlib.h>\nint wrong(int n) { char *p = malloc(8); p[n] = 1; n = p[n]; free(p); return n; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-fsanitize=address", "-o", library, source], check=True)
    done = sanitized(["-c", f"import ctypes; ctypes.CDLL({str(library)!r}).wrong(8)"])
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
