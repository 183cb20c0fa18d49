from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightbox.images.resize import Filter
from lightbox.model.options import ModelOptions, ModelOptionsError, load_options
from lightbox.settings_loading import load_settings


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lightbox.json").write_text(text)
    return folder


def test_a_models_own_file_wins_over_the_roots(tmp_path: Path) -> None:
    own = write(tmp_path / "net" / "code", '{"scaling": "tf", "image_size": "64x32"}')
    root = write(tmp_path / "code", '{"scaling": "unit"}')
    options = load_options([own, root], load_settings({}))
    assert (options.scaling, options.image_size) == ("tf", (64, 32))
    assert load_options([tmp_path / "nowhere", root], load_settings({})).scaling == "unit"


def test_the_environment_wins_over_files(tmp_path: Path) -> None:
    own = write(tmp_path, '{"scaling": "tf", "outputs": ["a"], "image_size": 32}')
    environ = {
        "LIGHTBOX_SCALING": "none",
        "LIGHTBOX_OPTIONS": '{"scaling": "unit", "outputs": ["b", "c"], "image_size": 16}',
    }
    options = load_options([own], load_settings(environ))
    assert (options.scaling, options.outputs, options.image_size) == ("none", ("b", "c"), (16, 16))


def test_without_a_file_nothing_is_scaled() -> None:
    assert load_options([], load_settings({})) == ModelOptions()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "lightbox.json"),
        ("[]", "lightbox.json"),
        ('{"scalling": "tf"}', "scalling"),
        ('{"scaling": "TF"}', "scaling"),
        ('{"top_k": 0}', "top_k"),
        ('{"image_size": "x"}', "image_size"),
        ('{"outputs": [1]}', "outputs"),
    ],
)
def test_a_wrong_file_names_itself_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModelOptionsError) as caught:
        load_options([write(tmp_path, text)], load_settings({}))
    assert str(tmp_path / "lightbox.json") in str(caught.value)
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "lightbox.json").symlink_to(tmp_path / "nowhere.json")
    with pytest.raises(ModelOptionsError, match=r"lightbox\.json cannot be read: No such file"):
        load_options([tmp_path], load_settings({}))


def test_labels_are_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    own = write(tmp_path / "net" / "code", '{"labels": "names.txt", "top_k": 3}')
    root = tmp_path / "code"
    root.mkdir()
    (root / "names.txt").write_text("\ufeffcat\r\n\nGro\u00dfe Katze\n", "utf-8")
    options = load_options([own, root], load_settings({}))
    assert (options.labels, options.top_k) == (("cat", "", "Große Katze"), 3)


def test_labels_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a\nb")
    environ = {"LIGHTBOX_LABELS": str(tmp_path / "x.txt"), "LIGHTBOX_OPTIONS": '{"top_k": 2, "labels": ["y"]}'}
    options = load_options([write(tmp_path / "code", '{"labels": ["z"], "top_k": 1}')], load_settings(environ))
    assert (options.labels, options.top_k) == (("a", "b"), 2)


def test_a_missing_file_of_labels_is_named(tmp_path: Path) -> None:
    own = write(tmp_path, '{"labels": "nowhere.txt"}')
    with pytest.raises(ModelOptionsError, match=r"labels: there is no file .*nowhere\.txt"):
        load_options([own], load_settings({}))
    with pytest.raises(ModelOptionsError, match=r"^LIGHTBOX_LABELS: there is no file"):
        load_options([own], load_settings({"LIGHTBOX_LABELS": "other.txt"}))
    (tmp_path / "nowhere.txt").write_bytes(b"\xff")
    with pytest.raises(ModelOptionsError, match="UTF-8"):
        load_options([own], load_settings({}))


def test_the_page_has_every_option_with_its_default() -> None:
    page = (Path(__file__).parents[4] / "docs" / "options.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (.*?) \| `(.*?)` \| ", page, re.MULTILINE)
    assert {name for name, *_ in rows} == set(ModelOptions.model_fields)
    for name, default, example in rows:
        value = ModelOptions.model_fields[name].default
        assert getattr(ModelOptions.model_validate_json(f'{{"{name}": {example}}}'), name) != value, name
        shown = re.fullmatch(r"`(.*)`", default)
        assert value is None or (shown is not None and json.loads(shown[1]) == value), name


def test_the_page_has_every_filter() -> None:
    page = (Path(__file__).parents[4] / "docs" / "options.md").read_text()
    table = page[page.index("## `resize`") :]
    named = set(re.findall(r'`"(\w+)"`', "".join(re.findall(r"^\| (`.*?`) \| ", table, re.MULTILINE))))
    assert named == set(map(str, Filter))
