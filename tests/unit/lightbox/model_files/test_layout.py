from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_files.checks import show_versions, unusable_versions, versions_of
from lightbox.model_files.layout import (
    ModelLayoutError,
    ModelOnDisk,
    choose_default,
    find_models,
    folders_without_model,
    is_model_name,
)
from lightbox.model_runtime.formats import model_file
from support.mlflow_folders import save_onnx, save_other, save_tensorflow
from support.parameters import each

KERAS = "keras.models.load_model(FILE).export('MODEL_DIR/NAME/1') makes one"


def saved_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").touch()


def names(root: Path) -> list[tuple[str, str, bool]]:
    return [(m.name, str(m.base_path.relative_to(root)), m.unversioned) for m in find_models(root)]


@each(
    ("folders", "expected"),
    [
        (["1"], [("root", ".", False)]),
        (["00000123"], [("root", ".", False)]),
        (["b/1", "a/1", "a/2"], [("a", "a", False), ("b", "b", False)]),
        (["export/Servo/1"], [("Servo", "export/Servo", False)]),
        (["."], [("root", ".", True)]),
        (["net"], [("net", "net", True)]),
        (["net/1", "code/lib/9", ".cache/1"], [("net", "net", False)]),
    ],
)
def test_layouts(tmp_path: Path, folders: list[str], expected: list[tuple[str, str, bool]]) -> None:
    root = tmp_path / "root"
    for folder in folders:
        saved_model(root / folder)
    assert names(root) == expected


@pytest.mark.parametrize("inside", ["tf2model", "tfmodel", "data/model"])
def test_a_folder_of_mlflow_is_one_model(tmp_path: Path, inside: str) -> None:
    save_tensorflow(tmp_path / "net", "half_plus_two", inside)
    (tmp_path / "net" / "code" / "1").mkdir(parents=True)
    for root in (tmp_path, tmp_path / "net"):
        (model,) = find_models(root)
        assert model == ModelOnDisk("net", tmp_path / "net", unversioned=True, inside=Path(inside))
        assert versions_of(model) == [(1, tmp_path / "net" / inside)]


def test_an_onnx_folder_of_mlflow_is_one_model(tmp_path: Path) -> None:
    save_onnx(tmp_path / "net")
    (tmp_path / "net" / "code").mkdir()
    assert find_models(tmp_path) == [ModelOnDisk("net", tmp_path / "net", unversioned=True)]
    assert list(folders_without_model(tmp_path)) == []


@each(
    ("flavor", "file", "sentence"),
    [
        ("tensorflow", "data/model.keras", f"data/model.keras is a Keras model: {KERAS}"),
        ("keras", "data/model.h5", f"data/model.h5 is a Keras model, or weights of one, in HDF5: {KERAS}"),
        ("pytorch.model", "data/model.pth", "data/model.pth is a PyTorch model: torch.onnx.export makes"),
        ("sklearn", "model.skops", "model.skops is a model of scikit-learn: skl2onnx makes an ONNX model"),
        ("pyfunc.model", "python_model.pkl", "python_model.pkl is a pickled object of Python: skl2onnx makes"),
        ("xgboost", "model.ubj", "it is a model of MLflow, of which those of mlflow.tensorflow and mlflow.onnx can"),
    ],
)
def test_another_flavor_of_mlflow_is_reported(tmp_path: Path, flavor: str, file: str, sentence: str) -> None:
    folder = tmp_path / "net"
    save_other(folder, flavor, file)
    (model,) = find_models(tmp_path)
    (problem,) = unusable_versions(model)
    assert problem.startswith(f"{folder} holds no saved_model.pb; ")
    assert sentence in problem
    saved_model(tmp_path / "other")
    assert [found.name for found in find_models(tmp_path)] == ["other"]
    assert list(folders_without_model(tmp_path)) == [folder]


def test_a_folder_of_mlflow_in_place_of_a_version(tmp_path: Path) -> None:
    version = tmp_path / "net" / "1"
    save_tensorflow(version, "half_plus_two")
    (problem,) = unusable_versions(find_models(tmp_path)[0])
    reply = f"{version}/tf2model is as MLflow has it: move what it holds into {version}"
    assert problem == f"{version} holds no saved_model.pb; {reply}"


def test_what_lies_inside_a_saved_model_is_no_model(tmp_path: Path) -> None:
    saved_model(tmp_path / "net" / "1")
    saved_model(tmp_path / "net" / "1" / "assets" / "2")
    assert [model.name for model in find_models(tmp_path)] == ["net"]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()], ids=["missing", "empty"])
def test_no_model_names_the_setting_and_the_path(tmp_path: Path, make: object) -> None:
    root = tmp_path / "models"
    make(root)  # type: ignore[operator]
    with pytest.raises(ModelLayoutError, match=rf"LIGHTBOX_MODEL_DIR: .*{root}"):
        find_models(root)


def test_two_models_of_one_name(tmp_path: Path) -> None:
    saved_model(tmp_path / "a" / "net" / "1")
    saved_model(tmp_path / "b" / "net" / "1")
    with pytest.raises(ModelLayoutError, match="two models are named net"):
        find_models(tmp_path)


def test_a_name_that_cannot_be_asked_for(tmp_path: Path) -> None:
    saved_model(tmp_path / "my net" / "1")
    with pytest.raises(ModelLayoutError, match="my net"):
        find_models(tmp_path)


@each("data", ["data/2024", "checkpoints/1000", "7", "net/code/3"])
def test_digits_without_a_saved_model_are_no_model_beside_one(tmp_path: Path, data: str) -> None:
    root = tmp_path / "root"
    saved_model(root / "net" / "1")
    (root / data).mkdir(parents=True)
    (root / data / "x.csv").touch()
    assert names(root) == [("net", "net", False)]
    assert list(folders_without_model(root)) == ([] if data == "net/code/3" else [(root / data).parent])


def test_digits_alone_are_taken_for_models_that_lack_something(tmp_path: Path) -> None:
    (tmp_path / "a" / "1").mkdir(parents=True)
    (tmp_path / "b" / "1").mkdir(parents=True)
    assert [model.name for model in find_models(tmp_path)] == ["a", "b"]


def test_a_version_without_a_saved_model_beside_one_with(tmp_path: Path) -> None:
    saved_model(tmp_path / "net" / "1")
    (tmp_path / "net" / "2").mkdir()
    assert [model.name for model in find_models(tmp_path)] == ["net"]
    assert list(folders_without_model(tmp_path)) == []


def test_default_is_the_wanted_or_the_first(tmp_path: Path) -> None:
    for name in ("b", "a"):
        saved_model(tmp_path / name / "1")
    models = find_models(tmp_path)
    assert choose_default(models, None) == "a"
    assert choose_default(models, "b") == "b"
    with pytest.raises(ModelLayoutError, match=r"SAGEMAKER_TFS_DEFAULT_MODEL_NAME: .*'c'; found: a, b"):
        choose_default(models, "c")


@pytest.mark.parametrize("name", ["a", "A-b_c.1", "x" * 255])
def test_good_names(name: str) -> None:
    assert is_model_name(name)


@each("name", ["", ".", "..", "a/b", "a b", "x" * 256, "ä", "a\n"])
def test_bad_names(name: str) -> None:
    assert not is_model_name(name)


@each(
    ("name", "what", "sentence"),
    [
        ("pets.keras", "a Keras model", KERAS),
        (
            "pets.h5",
            "a Keras model, or weights of one, in HDF5",
            "keras.models.load_model(FILE).export('MODEL_DIR/NAME/1') makes one",
        ),
        ("pets.TFLITE", "a LiteRT model", "MODEL_DIR/NAME/1/model.tflite is served"),
        ("pets.pt", "a PyTorch model", "torch.onnx.export makes an ONNX model of it"),
    ],
)
def test_an_error_says_how_to_convert_a_model_of_another_format(
    tmp_path: Path, name: str, what: str, sentence: str
) -> None:
    for file in (tmp_path / "a" / name, tmp_path / "b" / "pets" / name):
        file.parent.mkdir(parents=True)
        file.touch()
        for root in (tmp_path / file.relative_to(tmp_path).parts[0], file):
            with pytest.raises(ModelLayoutError) as raised:
                find_models(root)
            assert f"; {file} is {what}: {sentence}" in str(raised.value)


@pytest.mark.parametrize("name", ["pets.onnx", "pets.xml", "pets.tflite"])
def test_a_model_file_is_a_model_of_its_name(tmp_path: Path, name: str) -> None:
    """Other files beside it are ignored. A folder with only a model file is a model with the folder's name."""
    (tmp_path / "beside.onnx").touch()
    (tmp_path / name).write_text("net")
    (model,) = find_models(tmp_path / name)
    assert model == ModelOnDisk("pets", tmp_path / name, unversioned=True)
    assert versions_of(model) == [(1, tmp_path / name)]
    show_versions(model, tmp_path / "run" / "pets", ())
    shown = model_file(tmp_path / "run" / "pets" / "1")
    assert shown is not None
    assert (shown.path.suffix, shown.path.read_text()) == (Path(name).suffix, "net")


def test_a_folder_with_a_model_file_alone_is_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "yolo11n_openvino_model"
    folder.mkdir()
    for name in ("yolo11n.xml", "yolo11n.bin", "metadata.yaml"):
        (folder / name).touch()
    (folder / "code").mkdir()
    assert find_models(folder) == find_models(tmp_path) == [ModelOnDisk(folder.name, folder, unversioned=True)]
    saved_model(folder / "others" / "1")
    assert [model.name for model in find_models(folder)] == ["others"]


def test_a_second_link_to_a_folder_of_models_is_no_model_for_a_file_in_it(tmp_path: Path) -> None:
    saved_model(tmp_path / "a" / "group" / "net" / "1")
    (tmp_path / "a" / "model.onnx").touch()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "model.onnx").touch()
    (tmp_path / "c" / "more").symlink_to("../a/group")
    assert find_models(tmp_path) == [ModelOnDisk("net", tmp_path / "a" / "group" / "net")]


def test_a_file_is_no_model_directory(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ModelLayoutError, match=r"is a file, not a directory$"):
        find_models(tmp_path / "saved_model.pb")


def test_strangers_beside_models_versions_and_a_lone_file_are_ignored(tmp_path: Path) -> None:
    saved_model(tmp_path / "many" / "net" / "1")
    (tmp_path / "lone").mkdir()
    (tmp_path / "lone" / "model.onnx").touch()
    strangers = [
        tmp_path / place / name
        for place in ("many", "many/net", "lone")
        for name in ("lost+found", "@eaDir", "System Volume Information", ".Trash-0", "images")
    ]
    for folder in strangers:
        folder.mkdir()
    saved_model(tmp_path / "many" / "lost+found" / "#12" / "1")
    saved_model(tmp_path / "lone" / ".Trash-0" / "files" / "old" / "1")
    assert [model.name for model in find_models(tmp_path / "many")] == ["net"]
    assert find_models(tmp_path / "lone") == [ModelOnDisk("lone", tmp_path / "lone", unversioned=True)]
    found = folders_without_model(tmp_path / "many") | folders_without_model(tmp_path / "lone")
    assert found == dict.fromkeys(strangers, "")
    saved_model(tmp_path / "lone" / "images" / "1")
    assert [model.name for model in find_models(tmp_path / "lone")] == ["images"], "a file beside models is none"
