"""Folders that the user may not read, at each level. The checks run as another user than root."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from lightbox.tools.harness.stack import clean_environ
from support import commands
from support.model_files import write_dense_as

PROGRAM = """
import json, sys
from pathlib import Path
from lightbox.supervisor.starting.start_checks import find_lasting_problems, find_warnings
from lightbox.serving.settings_loading import load_settings
found = {}
for root in map(Path, sys.argv[1:]):
    settings = load_settings({"LIGHTBOX_MODEL_DIR": str(root), "LIGHTBOX_NGINX": "false"})
    problems = find_lasting_problems(settings)
    found[root.name] = problems or find_warnings(settings)
print(json.dumps(found))
"""
AS_ANOTHER = ["unshare", "--user"]
"""A user without the rights of root, whatever the user of this process is."""
LEVELS = {"root": "", "model": "net", "version": "net/1", "one-of-two": "net/2", "code": "net/code", "shared": "code"}
BESIDE = ("images", "net/images")


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """A root for each level, with a folder of the mode 000, and links to a place behind it."""
    found = {}
    for name, closed in (LEVELS | dict.fromkeys(BESIDE)).items():
        root = found[name] = tmp_path / name.replace("/", " ")
        write_dense_as(root / "net" / "1" / "model.onnx")
        folder = root / (name if closed is None else closed)
        folder.mkdir(parents=True, exist_ok=True)
        for link in ("link", "net/link", "net/3", "net/1/model.data", "net/1/link"):
            (root / link).symlink_to(folder / "behind")
        folder.chmod(0)
    return found


def test_each_is_one_sentence(roots: dict[str, Path]) -> None:
    try:
        done = commands.run(
            [*AS_ANOTHER, sys.executable, "-c", PROGRAM, *map(str, roots.values())],
            env=clean_environ() | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    finally:
        for name, root in roots.items():  # pytest removes them
            (root / LEVELS.get(name, name)).chmod(0o700)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for name, root in roots.items():
        (line,) = said[root.name]
        folder = root / LEVELS.get(name, name)
        assert f"{folder} cannot be read by the user " in line
        assert line.endswith(", who runs Lightbox: let that user read it")
