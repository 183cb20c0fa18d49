"""Parameters of a test: all in one test, or a few of them in ``make test``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]
SHOWN = 500
"""Characters of a failed case's values in the report."""


def few_of(values: Iterable[Any], *few: Any) -> list[Any]:
    """Return the values for ``pytest.mark.parametrize``; all but ``few`` are part of ``make test-all`` alone."""
    return [value if value in few else _extended(value) for value in values]


def _extended(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.extended)


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run all cases in one test and report every failed one: a test costs ten milliseconds, most cases far less.

    It takes the place of ``pytest.mark.parametrize``. The cases share the test's fixtures, but each has its own
    ``tmp_path``.
    """
    words = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [tuple(case) if len(words) > 1 else (case,) for case in cases]
    assert rows, f"expected a case of {names}"

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(*instance: Any, **fixtures: Any) -> None:
            failures = []
            for number, row in enumerate(rows):
                given = dict(zip(words, row, strict=True))
                if "tmp_path" in fixtures:
                    given["tmp_path"] = fixtures["tmp_path"] / str(number)
                    given["tmp_path"].mkdir()
                try:
                    test(*instance, **{**fixtures, **given})
                except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:
                    error.add_note(f"case {number}: {given}"[:SHOWN])
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases of {', '.join(words)}", failures)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in words]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
