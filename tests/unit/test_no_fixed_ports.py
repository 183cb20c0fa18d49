"""No test uses a fixed port, which another program may have. harness.ports returns free ports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from support.parameters import each
from support.stack import REPOSITORY

TESTS = REPOSITORY / "tests"
RECORDED = TESTS / "contract" / "golden"
HOSTS = ("127.0.0.1", "0.0.0.0", "localhost", "::1", "")
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):\d{2,5}\b|--\w*port=\d{2,5}\b")
LIKELY = re.compile(
    rf"{ADDRESS.pattern}|(?:port(?:_range)?[\"']?\s*[=:]|(?:{'|'.join(map(re.escape, HOSTS))})[\"'],)\s*[\"']?\d\d",
    re.IGNORECASE,
)
"""Finds the source of all of these, and more."""
NUMBERS = re.compile(r"\d{2,5}(-\d{2,5})?")
UNUSED = "# unopened"
"""Beside the number of a port that is only read or written, and that no socket gets."""


def test_no_test_takes_a_port_by_its_number() -> None:
    found = []
    for module in TESTS.rglob("*.py"):
        if RECORDED not in module.parents:
            text = module.read_text()
            lines = text.splitlines()
            found += [f"{module}:{line}" for line in numbered(text) if UNUSED not in lines[line - 1]]
    assert found == []


def numbered(text: str) -> Iterator[int]:
    """Yield the lines with a port number, except in the text that ``replace`` looks for."""
    if not LIKELY.search(text):  # to parse all modules takes seconds
        return
    tree = ast.parse(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    looked_for = {id(call.args[0]) for call in calls if getattr(call.func, "attr", "") == "replace"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in looked_for:
            yield from [node.lineno] if ADDRESS.search(node.value) else []
        yield from (value.lineno for name, value in named(node) if is_port(name, value))


def is_port(name: str, value: ast.expr) -> bool:
    """Return whether a named value is a port number."""
    number = isinstance(value, ast.Constant) and NUMBERS.fullmatch(str(value.value))
    return bool(number) and name.lower().endswith(("port", "port_range"))


def named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the named values of an expression: arguments, entries of a dict, and the value after a host."""
    match node:
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.Dict(keys=keys, values=values):
            yield from ((str(getattr(key, "value", "")), value) for key, value in zip(keys, values, strict=True))
        case ast.Tuple(elts=[ast.Constant(value=host), value]) if host in HOSTS:
            yield "port", value


@each(
    ("line", "found"),
    [
        ("connect(('127.0.0.1', 8080))", True),
        ("connect(('127.0.0.1', port))", False),
        ("get('http://localhost:8080/ping')", True),  # unopened
        ("text.replace('localhost:8080', stack.url)", False),  # unopened
        ("start({'SAGEMAKER_BIND_TO_PORT': '8080'})", True),
        ("start(SAGEMAKER_SAFE_PORT_RANGE='9000-9001')", True),
        ("start('--rest_api_port=8501')", True),  # unopened
        ("start('--port=0')", False),
        ("Server(port=9000)", True),
    ],
)
def test_numbers_of_ports_are_found(line: str, found: bool) -> None:
    assert list(numbered(line)) == [1] * found
