from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightbox.images.preparation import Filter
from lightbox.model.options import OPTIONS_FILE, ModelOptions, ModelOptionsError, ResolvedOptions, load_options
from lightbox.model.presets import PRESETS
from lightbox.serving.settings_loading import load_settings
from support.parameters import each

PAGE = (Path(__file__).parents[4] / "docs" / "options.md").read_text()


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
    assert load_options([], load_settings({})) == ResolvedOptions()


@each(
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
    (root / "names.txt").write_text("\ufeffcat\r\n\nGro\u00dfe Katze\r\n\r\n  \r\n", "utf-8")
    options = load_options([own, root], load_settings({}))
    assert (options.labels, options.top_k) == (("cat", "", "Große Katze"), 3)
    for text, labels in (('{"1": "dog", "0": "cat"}', ("cat", "dog")), ('["cat"]', ("cat",))):
        (root / "names.json").write_text(text)
        write(own, '{"labels": "names.json", "mean": 0.5}')
        options = load_options([own, root], load_settings({}))
        assert (options.labels, options.mean) == (labels, (0.5,))
    (root / "names.json").write_text('{"1": "dog"}')
    with pytest.raises(ModelOptionsError, match="expected a JSON list of names, or an object"):
        load_options([own, root], load_settings({}))


def test_options_with_a_byte_order_mark(tmp_path: Path) -> None:
    own = write(tmp_path, "\ufeff" + '{"scaling": "unit"}')
    assert load_options([own], load_settings({})).scaling == "unit"
    (own / "lightbox.json").write_text('{"scaling": "unit"}', "utf-16")
    with pytest.raises(ModelOptionsError, match=r"lightbox\.json cannot be read: it is UTF-16, .*: save it as UTF-8"):
        load_options([own], load_settings({}))


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


@each("name", ModelOptions.model_fields)
def test_each_example_of_an_option_is_a_value_of_it(name: str) -> None:
    field = ModelOptions.model_fields[name]
    for example in field.examples or ():
        found = ModelOptions.model_validate_json(json.dumps({name: example}))
        assert getattr(found, name) not in (None, field.default)


def test_the_page_has_every_preset_with_its_options() -> None:
    table = PAGE[PAGE.index("## Presets") : PAGE.index("ImageNet's mean is")]
    rows = [[cell.strip() for cell in row.split("|")[1:5]] for row in re.findall(r"^\| `.*$", table, re.MULTILINE)]
    assert [name.strip("`") for name, *_ in rows] == list(PRESETS)
    for name, fit, resize, values in rows:
        preset = PRESETS[name.strip("`")]
        assert fit == ", ".join(str(preset[key]) for key in ("fit", "crop_pct", "pad") if key in preset)
        assert resize == preset["resize"]
        assert values == f"`{preset['scaling']}`" + (", ImageNet's" if "mean" in preset else "")
    assert str(list(PRESETS["timm"]["mean"])) in PAGE
    assert str(list(PRESETS["timm"]["std"])) in PAGE


def test_the_page_has_every_filter() -> None:
    table = PAGE[PAGE.index("## `resize`") :]
    named = set(re.findall(r'`"(\w+)"`', "".join(re.findall(r"^\| (`.*?`) \| ", table, re.MULTILINE))))
    assert named == set(map(str, Filter))


def options_of(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> ModelOptions:
    return load_options([write(tmp_path, text)], load_settings(environ or {}))


def test_a_preset_is_the_options_of_its_row(tmp_path: Path) -> None:
    found = options_of(tmp_path, '{"preset": "timm", "labels": ["a"]}')
    shown = (found.fit, found.crop_pct, found.resize, found.scaling, found.mean, found.std, found.labels)
    assert shown == ("crop", 0.875, "bicubic", "unit", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), ("a",))
    found = options_of(tmp_path, '{"preset": "ultralytics"}')
    assert (found.fit, found.pad, found.resize, found.scaling, found.mean) == (
        "letterbox",
        114,
        "opencv_bilinear",
        "unit",
        None,
    )


@each(
    ("text", "environ", "expected"),
    [
        ('{"preset": "timm", "crop_pct": 0.95}', {}, {"crop_pct": 0.95, "fit": "crop"}),
        ('{"preset": "timm", "resize_shorter": 235}', {}, {"crop_pct": None, "resize_shorter": 235}),
        ('{"preset": "timm", "std": [1, 1, 1]}', {}, {"mean": (0.485, 0.456, 0.406), "std": (1, 1, 1)}),
        (
            '{"preset": "timm", "channels": "bgr", "std": [1, 2, 3]}',
            {},
            {"mean": (0.406, 0.456, 0.485), "std": (1, 2, 3)},
        ),
        ('{"preset": "timm", "scaling": "tf"}', {}, {"scaling": "tf", "mean": None, "std": None}),
        ('{"preset": "timm"}', {"LIGHTBOX_SCALING": "none"}, {"scaling": "none", "mean": None, "std": None}),
        ('{"preset": "ultralytics", "fit": "stretch"}', {}, {"fit": "stretch", "pad": None}),
        ('{"preset": "keras-resnet"}', {"LIGHTBOX_OPTIONS": '{"preset": "timm"}'}, {"preset": "timm", "fit": "crop"}),
        ('{"mean": [1, 2, 3]}', {}, {"scaling": "unit"}),
        ('{"std": [1], "scaling": "none"}', {}, {"scaling": "none"}),
        ('{"fit": "letterbox"}', {}, {"pad": 114}),
        ('{"fit": "letterbox", "pad": [1, 2, 3]}', {}, {"pad": (1, 2, 3)}),
    ],
)
def test_what_stands_beside_a_preset_overrides_it(
    tmp_path: Path, text: str, environ: dict[str, str], expected: dict[str, object]
) -> None:
    found = options_of(tmp_path, text, environ)
    assert {key: getattr(found, key) for key in expected} == expected


@each(
    ("text", "said"),
    [
        ('{"pad": 7}', "pad: works only with fit 'letterbox', got fit 'stretch'"),
        ('{"rounding": "lower"}', "rounding: works only with fit 'letterbox', got fit 'stretch'"),
        ('{"fit": "crop", "pad": 7}', "pad: works only with fit 'letterbox', got fit 'crop'"),
        ('{"resize_shorter": 256}', "resize_shorter: works only with fit 'crop'"),
        (
            '{"fit": "crop", "resize_shorter": 256, "crop_pct": 0.9}',
            "resize_shorter: expected this or crop_pct, got both",
        ),
        ('{"std": [1, 0, 1]}', "std: expected numbers other than 0"),
        ('{"std": [1e-50]}', "std: expected numbers other than 0"),
        ('{"mean": [1e300]}', "mean: expected numbers that float32 can hold"),
        ('{"std": [NaN]}', "std: expected numbers that float32 can hold"),
        ('{"fit": "letterbox", "pad": 256}', "pad"),
        ('{"scaling": "torch", "mean": [1, 1, 1]}', "mean: the scaling 'torch' has its own mean"),
        ('{"preset": "keras-resnet", "std": [1, 1, 1]}', "std: the scaling 'caffe' has its own mean"),
        ('{"preset": "keras-resnet", "channels": "rgb"}', "channels: the scaling 'caffe' is in the order bgr"),
        ('{"score_threshold": 0.5}', "score_threshold: works only with detections, got detections None"),
        ('{"detections": "detr", "iou_threshold": 0.5}', "iou_threshold: works only with detections 'ultralytics'"),
        ('{"preset": "tim"}', "preset"),
    ],
)
def test_options_that_cannot_be_together_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModelOptionsError, match=re.escape(said)) as refused:
        options_of(tmp_path, text)
    assert "lightbox.json" in str(refused.value)


def test_a_refusal_names_the_variable_that_asks(tmp_path: Path) -> None:
    with pytest.raises(ModelOptionsError, match=r"^LIGHTBOX_OPTIONS: pad: works only with"):
        load_options([tmp_path], load_settings({"LIGHTBOX_OPTIONS": '{"pad": 7}'}))
    own = re.escape(f"got fit 'crop'; the model's own options are in {tmp_path / OPTIONS_FILE}")
    with pytest.raises(ModelOptionsError, match=own):
        options_of(tmp_path, '{"fit": "crop"}', {"LIGHTBOX_OPTIONS": '{"pad": 7}'})
