"""Run the unit tests of what changed against main: python scripts/changed_tests.py [TEST...] runs these instead.

A changed module runs the tests of its name in tests/unit (test_decode.py, test_decode_limits.py), or those of the next
folder above that has some. A test module runs itself, a module of tests/support or tests/corpus the test modules that
import it, a conftest.py its folder. All else runs the tests of the repository itself. What tests/unit does not hold is
left to ``make test``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
UNIT = Path("tests/unit")
MIRRORED = {"container": UNIT, "scripts": UNIT / "scripts", "code": UNIT / "code"}


def git(*words: str, repository: Path = REPOSITORY) -> str:
    """Return the output of a git command, empty if it fails."""
    done = subprocess.run(  # noqa: S603
        ["git", *words],  # noqa: S607
        cwd=repository,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def changed(repository: Path = REPOSITORY) -> list[Path]:
    """Return the files that differ from main, and on main from origin/main, else from the last commit but one."""
    branch = git("branch", "--show-current", repository=repository)
    names = ("main", "origin/main") if branch != "main" else ("origin/main",)
    bases = [git("merge-base", "HEAD", name, repository=repository) for name in names]
    base = next(filter(None, bases), "HEAD~1")
    files = git("diff", "--name-only", "--no-renames", base, repository=repository)
    new = git("ls-files", "--others", "--exclude-standard", repository=repository)
    return sorted({Path(line) for line in f"{files}\n{new}".splitlines() if line})


def tests_of(file: Path, repository: Path = REPOSITORY) -> list[Path]:
    """Return what of tests/unit checks a changed file: modules and folders, relative to the repository."""
    top, *below = file.parts
    if top in MIRRORED and file.suffix == ".py":
        return _mirrored(MIRRORED[top].joinpath(*below), repository)
    if top != "tests":
        return sorted(path.relative_to(repository) for path in (repository / UNIT).glob("test_*.py"))
    if file.is_relative_to(UNIT):
        own = file.parent if file.name == "conftest.py" else file
        return [own] if (repository / own).exists() else []
    return _importing(".".join(file.with_suffix("").parts[1:]), repository) if file.suffix == ".py" else []


def _mirrored(place: Path, repository: Path) -> list[Path]:
    folder = repository / place.parent
    own = [*folder.glob(f"test_{place.name}"), *folder.glob(f"test_{place.stem}_*.py")]
    if own:
        return sorted(path.relative_to(repository) for path in own)
    folder = next(folder for folder in place.parents if any((repository / folder).glob("test_*.py")))
    return sorted(path.relative_to(repository) for path in (repository / folder).glob("test_*.py"))


def _importing(module: str, repository: Path) -> list[Path]:
    package, _, name = module.rpartition(".")
    line = re.compile(rf"^ *(from {package} import .*\b{name}\b|from {module} import|import {module}\b)", re.MULTILINE)
    found = sorted((repository / UNIT).rglob("test_*.py"))
    return [path.relative_to(repository) for path in found if line.search(path.read_text())]


def chosen(files: Iterable[Path], repository: Path = REPOSITORY) -> tuple[list[Path], list[Path]]:
    """Return the tests of changed files, and the files that have none."""
    tests = {file: tests_of(file, repository) for file in files}
    return sorted({test for found in tests.values() for test in found}), [file for file in tests if not tests[file]]


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return pytest's exit code."""
    tests = list(arguments)
    if not tests:
        found, left = chosen(changed())
        tests = list(map(str, found))
        for file in left:
            print(f"== {file}: no unit tests; make test has the others")
    if not tests:
        print("== no unit tests of what changed")
        return 0
    print(f"== unit tests: {' '.join(tests)}", flush=True)
    options = ["-q", "-m", "not extended", "-n", "auto", "--dist", "loadscope"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    code = subprocess.run(command, cwd=REPOSITORY, check=False).returncode  # noqa: S603
    return 0 if code == 5 else code  # 5: all of them are extended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
