"""Engines are plug-ins: only their list names them, and a disabled engine is not imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lightbox.model_runtime.engines import AUTO, ENGINES
from lightbox.model_runtime.engines.engine import engines, named
from support.isolation import clean_environ
from support.models import GOLDEN
from support.stack import REPOSITORY

FOLDER = REPOSITORY / "container" / "lightbox" / "model_runtime" / "engines"
SERVER = REPOSITORY / "container" / "lightbox" / "model_runtime" / "server"
OPENS = """
import json
import sys

from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.engines.hardware import Hardware

Opener(sys.argv[1], ("serve",), b"", Hardware(1, 1)).open(sys.argv[2])
print(json.dumps(sorted(sys.modules)))
"""


def test_only_the_list_names_engines() -> None:
    files = [file for file in FOLDER.glob("*.py") if file.name != "__init__.py"]
    files += [SERVER / name for name in ("core.py", "servable_loader.py", "manager.py", "calls.py")]
    words = re.compile("|".join(f"engines.{name}|\"{name}\"|'{name}'" for name in ENGINES))
    assert [str(file) for file in files if words.search(file.read_text())] == []


def test_every_engine_is_what_its_folder_says() -> None:
    assert [engine.name for engine in engines()] == list(ENGINES)
    assert {folder.name for folder in FOLDER.iterdir() if (folder / "__init__.py").exists()} == set(ENGINES)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_whose_package_is_missing_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = named(name)
    monkeypatch.setattr(type(engine), "package", "not_there")
    assert not engine.is_installed()
    with pytest.raises(ValueError, match=f"engine {name}: the package not_there is not installed"):
        engine.check_installed()


def test_what_is_off_is_not_imported() -> None:
    """An engine imports neither the other engines, nor the model server, nor the rest of Lightbox."""
    folder = GOLDEN / "half_plus_two" / "1"
    imported = modules_after(ENGINES[0], folder)
    assert f"lightbox.model_runtime.engines.{ENGINES[0]}.session" in imported
    for name in ENGINES[1:]:
        assert not {name, f"lightbox.model_runtime.engines.{name}"} & imported
    for name in imported:
        assert not name.startswith(
            ("lightbox.model.", "lightbox.model_files", "lightbox.supervisor", "lightbox.features")
        )


def modules_after(engine: str, folder: Path) -> set[str]:
    """Return the modules that a process imports to open a model."""
    assert engine in (*ENGINES, AUTO)
    done = subprocess.run(
        [sys.executable, "-c", OPENS, engine, str(folder)],
        env=clean_environ() | {"PYTHONPATH": str(REPOSITORY / "container")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))
