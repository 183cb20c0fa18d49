"""The import rules cover all modules of container/ without exceptions, chains of imports are short, and each module of
more than a screen has a test of its name.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lightbox.features import FEATURES
from support.stack import REPOSITORY

CONTAINER = REPOSITORY / "container"
RULES = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
MOST_FLOORS = 22
"""Modules of the longest chain of imports."""
SHORT = 60
"""Lines of a module that needs no test of its own."""


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(CONTAINER).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(file): file for file in CONTAINER.rglob("*.py")}


def imported(module: str) -> set[str]:
    """Return a module's imports, with those in functions and for type checking, and the packages of from-imports."""
    return {name for name in _named(ast.parse(FILES[module].read_text())) if name in FILES and name != module}


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "imports are absolute here"
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def written(file: Path) -> list[str]:
    """Return the strings of a module, or the paths and headers in a part of nginx.conf."""
    if file.suffix == ".conf":
        return re.findall(r"[/\w][^\s\"^,]*", file.read_text())
    nodes = ast.walk(ast.parse(file.read_text()))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_every_module_is_in_one_layer() -> None:
    (contract,) = (rule for rule in RULES["contracts"] if rule["type"] == "layers")
    layers = [name.strip() for layer in contract["layers"] for name in re.split("[|:]", layer)]
    found = {module: [one for one in layers if f"{module}.".startswith(f"{one}.")] for module in FILES}
    # A package with modules in several layers belongs to no layer itself.
    split = {layer.rpartition(".")[0] for layer in layers} - {""}
    assert {module for module, its_layers in found.items() if len(its_layers) != 1} == split


def test_no_rule_has_an_exception() -> None:
    assert [rule["name"] for rule in RULES["contracts"] if "ignore_imports" in rule] == []
    assert "exclude_type_checking_imports" not in RULES


def test_paths_and_headers_of_a_feature_are_written_in_its_folder_only() -> None:
    package = CONTAINER / "lightbox"
    files = [file for kind in ("*.py", "*.conf") for file in package.rglob(kind)]
    # The tools are callers, and below a prefix other paths begin the same way.
    callees = [file for file in files if "tools" not in file.parts and "url_prefix=" not in file.read_text()]
    texts = {file: written(file) for file in callees}
    for feature in FEATURES:
        names = [*feature.paths, *feature.direct, *feature.model_errors, *feature.response_headers, *feature.headers]
        words, own = re.compile(f"({'|'.join(names)})(/.*)?"), package / "features" / feature.name
        outside = [file for file in texts if names and not file.is_relative_to(own)]
        found = {(file, text) for file in outside for text in texts[file] if words.fullmatch(text)}
        assert not found, feature.name


def test_imports_run_in_no_circle_and_in_short_chains() -> None:
    chains: dict[str, list[str]] = {}

    def chain(module: str, above: tuple[str, ...] = ()) -> list[str]:
        assert module not in above, f"a circle: {' -> '.join([*above[above.index(module) :], module])}"
        if module not in chains:
            below = [chain(name, (*above, module)) for name in sorted(imported(module))]
            chains[module] = [module, *max(below, key=len, default=[])]
        return chains[module]

    longest = max(map(chain, FILES), key=len)
    assert len(longest) <= MOST_FLOORS, " -> ".join(longest)


def test_every_module_has_a_test_of_its_name() -> None:
    """It is in the module's folder of tests/unit, or in a suite that starts processes, where its name fits no other.

    A behaviour follows the name: test_pipeline_outputs.py is of pipeline.py. The longest name that fits counts.
    """
    tests = REPOSITORY / "tests"
    own = {module for file in tests.rglob("test_*.py") for module in _tested(file.relative_to(tests))}
    long = {module for module, file in FILES.items() if file.read_text().count("\n") > SHORT}
    assert sorted(long - own) == []


def _tested(file: Path) -> set[str]:
    """Return the modules of a test module: one, or a package and a module of its name."""
    suite, *folders = file.parent.parts
    name = file.stem.removeprefix("test_")
    if suite == "unit":
        folder = ".".join(folders)  # the test of a package stands beside it or in it
        names = [
            (module.rpartition(".")[2], module) for module in FILES if folder in (module, module.rpartition(".")[0])
        ]
        return _longest(names, name)
    # tests/contract compares the model runtime with the real server.
    modules = [module for module in FILES if module.startswith("lightbox.model_runtime.") == (suite == "contract")]
    endings = [(ending, module) for module in modules for ending in _endings(module)]
    counts = Counter(ending for ending, _ in endings)
    names = [(ending, module) for ending, module in endings if counts[ending] == 1]
    return _longest(names, name) or _longest(names, "_".join([*folders, name]))


def _endings(module: str) -> list[str]:
    """Return a module's name, and the name after each of its packages."""
    parts = module.split(".")[1:]
    return ["_".join(parts[at:]) for at in range(len(parts))]


def _longest(names: list[tuple[str, str]], test: str) -> set[str]:
    fitting = [(name, module) for name, module in names if f"{test}_".startswith(f"{name}_")]
    most = max((len(name) for name, _ in fitting), default=0)
    return {module for name, module in fitting if len(name) == most}
