"""Rules for all files: links have a target, and each decision has its own number."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

from support.parameters import each
from support.stack import REPOSITORY

FOLDERS = ("code", "container", "deploy", "docs", "scripts", "tests")
PAGES = sorted([*REPOSITORY.glob("*.md"), *(page for name in FOLDERS for page in (REPOSITORY / name).rglob("*.md"))])
ADR = REPOSITORY / "docs" / "adr"
DECISIONS = sorted(ADR.glob("[0-9]*.md"))
MOST_LINES_OF_A_DECISION = 25
MODULES = sorted(module for name in FOLDERS for module in (REPOSITORY / name).rglob("*.py"))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@each("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{target} is not there"
        assert found.is_relative_to(REPOSITORY.resolve())
        if anchor:
            assert anchor in anchors(found), f"{target} has no heading #{anchor}"


def test_rows_of_the_migration_page_name_tests_that_exist() -> None:
    """A row of a table with the column "test" names an existing test. Rename both together."""
    tests = {name for module in MODULES for name in re.findall(r"def (test_\w+)", module.read_text())}
    page = (REPOSITORY / "docs" / "from-aws-container.md").read_text()
    tables = re.findall(r"^\|.*\| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 30
    assert [row for row in rows if "`test_" not in row.rsplit(" | ", 1)[1]] == []
    assert set(re.findall(r"`(test_\w+)`", page)) - tests == set()


def test_the_page_of_others_names_what_there_is() -> None:
    """The page names existing tests, existing files, and the locked releases."""
    tests = {name for module in MODULES for name in re.findall(r"def (test_\w+)", module.read_text())}
    page = (REPOSITORY / "docs" / "tested-by-others.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) >= 8
    assert named - tests == set()
    assert [path for path in re.findall(r"`(tests/[^`]+)`", page) if not (REPOSITORY / path).exists()] == []
    requirements = REPOSITORY / "requirements"
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (requirements / "clients.lock").read_text(), re.MULTILINE))
    for name in ("vision_clients", "bench", "dev"):
        lock = (requirements / f"{name}.lock").read_text()
        locked |= dict(re.findall(r"^([\w.-]+)==([\w.]+)", lock, re.MULTILINE))
    packages = json.loads((requirements / "clients" / "package-lock.json").read_text())["packages"]
    locked |= {name.removeprefix("node_modules/"): package.get("version", "") for name, package in packages.items()}
    # perf_analyzer is a program of tritonclient's wheel.
    (locked["perf_analyzer"],) = re.findall(
        r"^tritonclient==([\d.]+)", (requirements / "perf_analyzer.lock").read_text(), re.M
    )
    rows = re.findall(r"^\|[^|]*`([@\w./-]+)`(?: \([\w-]+\))? \| ([\d.]+) \|", page, re.MULTILINE)
    assert len(rows) >= 10
    assert {name: locked[name] for name, _ in rows} == dict(rows)


def test_archives_are_read_by_our_own_reader_alone() -> None:
    """Python's tarfile has security holes in some micro versions (docs/adr/065)."""
    code = [path for path in MODULES if path.relative_to(REPOSITORY).parts[0] in ("code", "container", "scripts")]
    assert [path for path in code if re.search(r"\b(extractall|unpack_archive)\(", path.read_text())] == []


def test_a_clone_on_windows_has_scripts_that_run() -> None:
    """Each tracked file that begins with ``#!`` gets line feeds, also with core.autocrlf."""
    git = ["git", "-C", str(REPOSITORY)]
    tracked = subprocess.run([*git, "ls-files", "-z"], capture_output=True, check=True).stdout
    scripts = [name for name in tracked.split(b"\0") if name and _begins(REPOSITORY / name.decode(), b"#!")]
    assert b"serve.sh" in scripts
    asked = subprocess.run(
        [*git, "check-attr", "-z", "--stdin", "eol", "text"], input=b"\0".join(scripts), capture_output=True, check=True
    )
    path, attribute, value = (asked.stdout.split(b"\0")[start::3] for start in range(3))
    found = dict(zip(zip(path, attribute, strict=False), value, strict=False))
    assert [name for name in scripts if found[name, b"eol"] != b"lf" or found[name, b"text"] == b"unset"] == []


def _begins(path: Path, text: bytes) -> bool:
    return path.is_file() and path.read_bytes().startswith(text)


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = Counter(page.name[:3] for page in DECISIONS)
    assert [number for number, times in numbers.items() if times > 1] == []
    for page in DECISIONS:
        assert page.read_text().startswith(f"# {page.name[:3]} ")


def test_the_index_lists_every_decision_by_its_title() -> None:
    titles = {page.name: page.read_text().partition("\n")[0].removeprefix("# ") for page in DECISIONS}
    listed = re.findall(r"^- \[(\d{3} .+)\]\((.+)\)$", (ADR / "README.md").read_text(), re.MULTILINE)
    assert sorted((file, title) for title, file in listed) == sorted(titles.items())


@each("page", DECISIONS)
def test_a_decision_is_short(page: Path) -> None:
    """Figures belong in docs/benchmarks."""
    lines = page.read_text().splitlines()
    assert len(lines) <= MOST_LINES_OF_A_DECISION
    assert [line for line in lines if line.startswith("|")] == []


def test_the_environment_is_read_in_two_places() -> None:
    """One module reads Lightbox's settings, the other reads all other variables."""
    reads = re.compile(r"os\.environ(?!\[[\w\"]+\] =|\.setdefault)|getenv")
    lightbox = REPOSITORY / "container" / "lightbox"
    found = {str(path.relative_to(lightbox)) for path in lightbox.rglob("*.py") if reads.search(path.read_text())}
    # Packages that start processes with an environment, the model server, and shared packages.
    apart = ("tools/", "model_runtime/")
    assert {name for name in found if not name.startswith(apart)} == {
        "base/machine/environment.py",
        "serving/settings_loading.py",
    }
