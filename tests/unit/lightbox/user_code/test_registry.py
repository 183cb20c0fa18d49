"""Removing a model removes all of its code that its next load would use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lightbox.base.errors import HandlerFailed, Unavailable
from lightbox.model.catalogue import PlannedModel
from lightbox.user_code import api_detection as loader
from lightbox.user_code.handlers import LightboxHandlers
from lightbox.user_code.registry import UserCode
from support.patience import PATIENCE
from support.user_code import model, write

HANDLER = "\ndef preprocess(request): return words()\n"


def answer(code: UserCode, wanted: PlannedModel) -> Any:
    handlers = code.of(wanted)
    assert isinstance(handlers, LightboxHandlers)
    assert handlers.preprocess is not None
    return handlers.preprocess(None)


def write_code(folder: Path, word: str) -> None:
    write(folder / "beside.py", f"WORD = {word!r}")
    write(folder / "package" / "__init__.py", "from package.inner import WORD")
    write(folder / "package" / "inner.py", f"WORD = {word!r}")
    write(folder / "bare" / "inner.py", f"WORD = {word!r}")
    write(folder / "lib" / "distant.py", f"WORD = {word!r}")
    imports = "import beside, package, distant\nfrom bare import inner"
    names = "beside.WORD, package.WORD, inner.WORD, distant.WORD"
    write(folder / "inference.py", f"{imports}\ndef words(): return [{names}]{HANDLER}")


def test_changed_modules_beside_it_are_imported_anew(tmp_path: Path) -> None:
    code, folder = UserCode(), tmp_path / "code"
    wanted = model("a", folder)
    write_code(folder, "old")
    assert answer(code, wanted) == ["old"] * 4
    write_code(folder, "newer")
    assert answer(code, wanted) == ["old"] * 4
    code.forget("a")
    assert answer(code, wanted) == ["newer"] * 4


def test_nothing_grows_with_models_that_come_and_go(tmp_path: Path) -> None:
    code = UserCode()
    path, folders, modules = list(sys.path), set(loader._folders), set(sys.modules)
    for name in ("a", "b", "c"):
        write_code(tmp_path / name, name)
        assert answer(code, model("same", tmp_path / name)) == [name] * 4
        code.forget("same")
    assert sys.path == path
    assert loader._folders == folders
    assert set(sys.modules) <= modules
    assert not any(str(tmp_path) in entry for entry in sys.path_importer_cache)


def test_code_that_another_model_uses_stays(tmp_path: Path) -> None:
    code, folder = UserCode(), tmp_path / "code"
    write_code(folder, "old")
    for name in ("a", "b"):
        assert answer(code, model(name, folder)) == ["old"] * 4
    write_code(folder, "newer")
    code.forget("a")
    assert code.uses(folder / "inference.py")
    assert answer(code, model("a", folder)) == ["old"] * 4
    code.forget("a")
    code.forget("b")
    assert not code.uses(folder / "inference.py")
    assert answer(code, model("a", folder)) == ["newer"] * 4


def test_modules_of_one_name_in_two_models_are_two(tmp_path: Path) -> None:
    code = UserCode()
    for name in ("a", "b", "c"):
        write_code(tmp_path / name, name)
        assert answer(code, model(name, tmp_path / name)) == [name] * 4


def test_helpers_of_code_that_could_not_be_imported_may_be_mended(tmp_path: Path) -> None:
    code, folder = UserCode(), tmp_path / "code"
    write(folder / "mended_helper.py", "WORD = None")
    write(
        folder / "inference.py", f"import mended_helper\nassert mended_helper.WORD\ndef words(): return 'good'{HANDLER}"
    )
    with pytest.raises(HandlerFailed, match="AssertionError"):
        code.of(model("a", folder))
    write(folder / "mended_helper.py", "WORD = 'now it is there'")
    assert answer(code, model("a", folder)) == "good"


def test_packages_with_compiled_modules_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, folder = UserCode(), tmp_path / "code"
    write_code(folder, "old")
    answer(code, model("a", folder))
    for name, file in (("fast", "__init__.py"), ("fast._core", f"_core{EXTENSION_SUFFIXES[0]}")):
        module = ModuleType(name)
        module.__file__ = str(folder / "lib" / "fast" / file)
        monkeypatch.setitem(sys.modules, name, module)
    code.forget("a")
    assert {"fast", "fast._core"} <= set(sys.modules)
    assert "beside" not in sys.modules
    loader._folders.difference_update([folder, folder / "lib"])


class Gate(ModuleType):
    """A module that blocks its importer until the test opens it."""

    def __init__(self) -> None:
        super().__init__("gate")
        self.entered, self.open = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE)


@contextmanager
def importing(
    code: UserCode, wanted: PlannedModel, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Gate, Future[Any]]]:
    """Keep a thread in the middle of an import until the gate opens."""
    gate = Gate()
    monkeypatch.setitem(sys.modules, "gate", gate)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(answer, code, wanted)
        try:
            assert gate.entered.wait(PATIENCE)
            yield gate, asked
        finally:
            gate.open.set()


def test_an_import_that_hangs_holds_up_neither_changes_nor_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightbox.user_code.registry.TURN_SECONDS", 0.05)
    code = UserCode()
    write(tmp_path / "hangs" / "inference.py", f"import gate\ngate.wait()\ndef words(): ...{HANDLER}")
    for name in ("fine", "other"):
        write(tmp_path / name / "inference.py", f"def words(): return {name!r}{HANDLER}")
    assert answer(code, model("fine", tmp_path / "fine")) == "fine"
    with importing(code, model("hangs", tmp_path / "hangs"), monkeypatch):
        assert answer(code, model("fine", tmp_path / "fine")) == "fine"
        code.forget("gone")
        with pytest.raises(Unavailable):
            code.of(model("other", tmp_path / "other"))
    assert answer(code, model("other", tmp_path / "other")) == "other"


def test_what_was_forgotten_while_it_was_imported_is_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, wanted = UserCode(), model("a", tmp_path)
    write(tmp_path / "late_helper.py", "WORD = 'old'")
    lines = "import late_helper, gate\ngate.wait()\ndef words(): return late_helper.WORD"
    write(tmp_path / "inference.py", lines + HANDLER)
    with importing(code, wanted, monkeypatch) as (gate, asked):
        write(tmp_path / "late_helper.py", "WORD = 'newer'")
        code.forget("a")
        gate.open.set()
        assert asked.result(PATIENCE) == "old"
    assert answer(code, wanted) == "newer"
