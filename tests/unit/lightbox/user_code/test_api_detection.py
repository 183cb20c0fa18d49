"""Importing: the path, several models' files, one import for all workers' threads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lightbox.user_code.api_detection import forget_folder, load_functions
from support.user_code import write

REPOSITORY = Path(__file__).parents[4]


def test_lib_wins_over_code_and_code_over_all_else(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code / "first.py", "at = 'code'")
    write(code / "both.py", "at = 'code'")
    write(code / "lib" / "both.py", "at = 'lib'")
    write(code / "lib" / "colorsys.py", "at = 'lib'")
    file = write(
        code / "inference.py",
        "import first, both, colorsys\ndef handler(d, c): return first.at, both.at, colorsys.at",
    )
    sys.modules.pop("colorsys", None)
    try:
        assert load_functions(file)["handler"](None, None) == ("code", "lib", "lib")
    finally:
        sys.modules.pop("colorsys")
    assert sys.path[:2] == [str(code / "lib"), str(code)]


def test_what_a_handler_starts_finds_its_modules(tmp_path: Path) -> None:
    code, other = tmp_path / "code", tmp_path / "other"
    for folder in (code, other):
        write(folder / "beside.py", f"print({folder.name!r})")
        write(folder / "lib" / "packed.py", f"print({folder.name!r})")
    start = "subprocess.run([sys.executable, '-c', 'import beside, packed'], capture_output=True, text=True).stdout"
    source = f"import subprocess, sys\ndef handler(data, context): return {start}"
    load_functions(write(other / "inference.py", source))
    handler = load_functions(write(code / "inference.py", source))["handler"]
    assert handler(None, None).split() == ["code", "code"]
    assert os.environ["PYTHONPATH"].split(os.pathsep)[:2] == [str(code / "lib"), str(code)]
    forget_folder(code)
    assert handler(None, None).split() == ["other", "other"]
    forget_folder(other)
    assert str(tmp_path) not in os.environ["PYTHONPATH"]


def test_a_changed_file_is_read_anew_in_the_same_second(tmp_path: Path) -> None:
    file = write(tmp_path / "code" / "inference.py", "def handler(d, c): return 1")
    assert load_functions(file)["handler"](0, 0) == 1
    write(file, "def handler(d, c): return 2")
    assert load_functions(file)["handler"](0, 0) == 2


def test_dataclasses_and_pickle_find_the_module(tmp_path: Path) -> None:
    file = write(
        tmp_path / "code" / "inference.py",
        """
from __future__ import annotations
import pickle
from dataclasses import dataclass
@dataclass
class Point:
    x: int
def handler(data, context): return pickle.loads(pickle.dumps(Point(3)))
""",
    )
    assert load_functions(file)["handler"](0, 0).x == 3


def test_the_repositorys_code_folder_is_no_package() -> None:
    """With an __init__.py it would shadow the standard library's module ``code``."""
    assert (REPOSITORY / "code" / "inference.py").is_file()
    assert not (REPOSITORY / "code" / "__init__.py").exists()


def test_importing_lightbox_for_its_errors_is_cheap() -> None:
    import subprocess

    script = (
        "import sys, lightbox; lightbox.BadRequest('x', status=422); "
        "heavy = {'numpy', 'PIL', 'flask', 'grpc', 'requests'} & set(sys.modules); "
        "assert not heavy, heavy; from lightbox import Request, Context; assert Context._fields[0] == 'model_name'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(REPOSITORY / "container")})


def test_unknown_names_of_lightbox_are_attribute_errors() -> None:
    with pytest.raises(ImportError):
        from lightbox import Nothing  # type: ignore[attr-defined]  # noqa: F401
