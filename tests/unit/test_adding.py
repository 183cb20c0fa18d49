"""docs/adding.md: each recipe lists all files that name an existing example of its kind, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from support import commands
from support.stack import REPOSITORY

PAGE = (REPOSITORY / "docs" / "adding.md").read_text()


def recipe(heading: str) -> list[str]:
    """Return the files of a recipe."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(heading))
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def naming(words: Iterable[str], below: Iterable[str]) -> set[str]:
    """Return the tracked files below these folders that contain one of the words."""
    command = ["git", "grep", "-lwE", "|".join(words), "--", *below]
    return set(commands.output(command, cwd=REPOSITORY).split())


@pytest.mark.parametrize(
    ("heading", "most"),
    [("A content type", 4), ("A route", 3), ("An engine", 8), ("A recipe", 5), ("A form of objects", 7)],
)
def test_a_recipe_is_short_and_its_files_are_there(heading: str, most: int) -> None:
    files = recipe(heading)
    assert 1 < len(files) <= most
    for file in files:
        assert list(REPOSITORY.glob(file.replace("<name>", "*"))), file


def test_a_codec_is_named_where_the_recipe_says() -> None:
    codec = {file.replace("<name>", "csv") for file in recipe("A content type")}
    found = naming(["CsvCodec", "lightbox.codecs.csv"], ["container", "scripts"])
    assert found == {file for file in codec if file.startswith("container/")}


def test_a_feature_is_named_where_the_recipe_says() -> None:
    route = {file.replace("<name>", "page") for file in recipe("A route")}
    found = naming(["features.page", "Page"], ["container"])
    inside = {file for file in found if file.startswith("container/lightbox/features/page/")}
    assert found - inside == {"container/lightbox/features/__init__.py"} < route


def test_a_recipe_is_named_where_the_recipe_says() -> None:
    files = {file.replace("<name>", "timm") for file in recipe("A recipe")}
    found = naming(["recipes import .*timm", "timm.read", "RecipeName = .*timm"], ["container"])
    assert found == {
        file
        for file in files
        if file.startswith("container/") and file != "container/lightbox/model_files/recipes/timm.py"
    }


def test_a_form_of_objects_is_named_where_the_recipe_says() -> None:
    files = {file.replace("<name>", "detr") for file in recipe("A form of objects") if file.startswith("container/")}
    found = naming(["heads.*import.*detr", "heads.detr", "DetectionsName = .*detr"], ["container"])
    assert found == files - {"container/lightbox/heads/detr.py"}


def test_an_engine_is_named_where_the_recipe_says() -> None:
    engine = {file.replace("<name>", "onnxruntime") for file in recipe("An engine")}
    found = naming(
        ["onnxruntime", "OnnxRuntime"],
        ["container", "pyproject.toml", "requirements/serve.*", "tests/unit/lightbox/model_runtime/engines"],
    )
    of_its_own_tests = {file for file in found if "/tests/" in f"/{file}" and "/engines/onnxruntime/" in file}
    assert found - of_its_own_tests <= engine
    assert {
        "container/lightbox/model_runtime/engines/__init__.py",
        "container/lightbox/model_runtime/engines/onnxruntime/__init__.py",
    } <= found
