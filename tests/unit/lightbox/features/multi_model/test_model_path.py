"""Folders of models: links in them. The cost of a scan is proportional to their content."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lightbox.base.errors import BadRequest, DeadlineExceeded, ModelNotFound
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model import model_path as sources
from lightbox.features.multi_model.model_path import Source, find_model, locate, measure
from lightbox.model_files import layout
from lightbox.model_files.layout import find_models
from support.patience import PATIENCE


def saved_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(bytes(1000))
    return folder


def looked_at(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """Return how often ``work`` calls ``Path.stat``."""
    count = 0
    real = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        nonlocal count
        count += 1
        return real(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat)
        work()
    return count


def test_links_do_not_multiply_what_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(links: int) -> int:
        root = tmp_path / f"{links}"
        for name in ("a", "b"):
            saved_model(root / name / "1")
            for index in range(links):
                (root / name / f"self{index}").symlink_to(".")
                (root / name / f"other{index}").symlink_to("../b" if name == "a" else "../a")

        def work() -> None:
            measure(root, root, "url", RequestContext(PATIENCE))
            assert {"a", "b"} <= {model.name for model in find_models(root)}

        return looked_at(monkeypatch, work)

    assert cost(100) < 2.5 * cost(50)


def test_a_link_back_to_a_folder_is_no_model_beside_it(tmp_path: Path) -> None:
    saved_model(tmp_path / "net" / "1")
    (tmp_path / "net" / "latest").symlink_to(".")
    (tmp_path / "net" / "up").symlink_to("..")
    assert [model.name for model in find_models(tmp_path)] == ["net"]
    found = find_model(tmp_path / "net", tmp_path, Source("net"), RequestContext(PATIENCE))
    assert found.base_path == tmp_path / "net"


def test_a_link_beside_a_model_is_another_name_of_it(tmp_path: Path) -> None:
    saved_model(tmp_path / "a" / "1")
    (tmp_path / "b").symlink_to("a")
    assert [model.name for model in find_models(tmp_path)] == ["a", "b"]
    assert measure(tmp_path, tmp_path, "url", RequestContext(PATIENCE)) == 1000


def test_links_out_are_found_behind_other_links(tmp_path: Path) -> None:
    root = tmp_path / "models"
    saved_model(root / "shared")
    saved_model(tmp_path / "secret")
    (root / "shared" / "assets").symlink_to(tmp_path / "secret")
    (root / "net").mkdir()
    (root / "net" / "1").symlink_to("../shared")
    with pytest.raises(BadRequest, match="the link 'assets' leads out of the model's folder; set LIGHTBOX_LINKED"):
        find_model(root / "net", root, Source("net"), RequestContext(PATIENCE))


def test_a_folder_is_looked_through_no_further_than_it_may_be_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_ENTRIES", 100)
    monkeypatch.setattr(layout, "find_models", None)

    def cost(folders: int) -> int:
        for index in range(folders):
            (tmp_path / f"{folders}" / f"{index}").mkdir(parents=True)

        def work() -> None:
            with pytest.raises(BadRequest, match="more than 100 files and folders"):
                find_model(tmp_path / f"{folders}", tmp_path, Source("x"), RequestContext(PATIENCE))

        return looked_at(monkeypatch, work)

    assert cost(1000) <= cost(200)


def test_a_deep_folder_and_a_late_look_are_refused(tmp_path: Path) -> None:
    (tmp_path / "/".join("x" * 40)).mkdir(parents=True)
    with pytest.raises(BadRequest, match="more than 32 deep"):
        measure(tmp_path, tmp_path, "url", RequestContext(PATIENCE))
    with pytest.raises(DeadlineExceeded, match="could not be read within -1 s"):
        measure(tmp_path, tmp_path, "url", RequestContext(-1))
    with pytest.raises(ModelNotFound):
        find_model(tmp_path / "x" / "/".join("x" * 20), tmp_path, Source("x"), RequestContext(PATIENCE))


def test_a_path_elsewhere_is_not_looked_at(tmp_path: Path) -> None:
    """Paths that may not be read, or cannot be there, are refused as those of missing files."""
    for path in ("/etc/passwd", "/etc/nothing", f"/etc/{'x' * 300}", f"../{'x' * 300}"):
        with pytest.raises(BadRequest, match=r"^url: expected a path below LIGHTBOX_MODEL_DIR, got "):
            locate(Source(path), tmp_path)
