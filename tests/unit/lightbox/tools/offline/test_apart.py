"""lightbox.tools.offline is independent: only two lines outside its folder name it, and no worker imports it."""

from __future__ import annotations

import subprocess
import sys

from support.stack import REPOSITORY

CONTAINER = REPOSITORY / "container"


def test_two_lines_elsewhere_name_it() -> None:
    """Deleting the folder and these two lines removes the feature completely."""
    found = [
        (str(file.relative_to(CONTAINER)), line.strip())
        for file in sorted(CONTAINER.rglob("*.py"))
        if not file.is_relative_to(CONTAINER / "lightbox" / "tools" / "offline")
        for line in file.read_text().splitlines()
        if "lightbox.tools.offline" in line
    ]
    assert found == [
        ("lightbox/__init__.py", '**dict.fromkeys(("Model", "load", "ray"), "lightbox.tools.offline"),'),
        ("lightbox/cli/__init__.py", '"predict": "lightbox.tools.offline.command",'),
    ]


def test_a_worker_does_not_import_it() -> None:
    program = "import sys, lightbox.serving.worker; print([name for name in sys.modules if 'tools.offline' in name])"
    done = subprocess.run([sys.executable, "-c", program], cwd=CONTAINER, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
