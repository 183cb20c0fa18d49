"""Code that Lightbox refuses at start. Each error names the file and the change to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.user_code import paths
from lightbox.user_code.api_detection import load_functions
from lightbox.user_code.paths import (
    UserCodeError,
    find_inference,
    find_requirements,
    refuse_misplaced,
    refuse_misplaced_options,
)
from support.parameters import each

from .conftest import WriteCode

AWS = "def {}(data, context): return data.read(), 'a/b'\n"
INPUT, OUTPUT, HANDLER = AWS.format("input_handler"), AWS.format("output_handler"), AWS.format("handler")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (HANDLER, ["handler"]),
        (INPUT + OUTPUT, ["input_handler", "output_handler"]),
        (HANDLER + INPUT, ["handler"]),
        ("def preprocess(request): ...", ["preprocess"]),
        ("def postprocess(o, r, *, extra=1): ...", ["postprocess"]),
        ("def preprocess(request): ...\ndef postprocess(*both): ...", ["preprocess", "postprocess"]),
        # A helper may have the name of a function of the API.
        ("def preprocess(x): return x\ndef handler(d, c): return preprocess(d), 'a/b'", ["handler"]),
        ("def preproces(x): ...\ndef preprocess(r): return preproces(r)", ["preprocess"]),
        (HANDLER + "def preproces(x): ...\n", ["handler"]),
        ("import functools\nhandler = functools.partial(lambda extra, d, c: 1, 2)", ["handler"]),
        ("class Model:\n  def __call__(self, data, context): ...\nhandler = Model()", ["handler"]),
    ],
)
def test_what_is_called(write_code: WriteCode, source: str, names: list[str]) -> None:
    assert list(load_functions(write_code(source))) == names


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def imput_handler(d, c): ...\n" + OUTPUT,
            "it defines imput_handler, which nothing calls: did you mean inp",
        ),
        ("def Handler(d, c): ...", "did you mean handler?"),
        ("def outputHandler(d, c): ...\n" + INPUT, "did you mean output_handler?"),
        ("def pre_process(r): ...", "did you mean preprocess?"),
        ("def preprocess(r): ...\ndef postproces(o, r): ...", "did you mean postprocess?"),
        (INPUT, "it defines input_handler without output_handler: define both, or handler(data, context)"),
        (OUTPUT, "output_handler without input_handler"),
        (HANDLER + "def preprocess(r): ...", "handler of AWS's API and preprocess of Lightbox's: keep one"),
        (
            INPUT + OUTPUT + "def postprocess(o, r): ...",
            "input_handler and output_handler of AWS's API and postproc",
        ),
        ("def predict_fn(x): ...\ndef model_fn(): ...", "its functions: predict_fn, model_fn"),
        ("", "it defines no function that Lightbox calls: define preprocess(request)"),
        (
            "def handler(data): ...",
            "handler is called with 2 arguments, handler(data, context); it is defined as",
        ),
        ("def handler(a, b, c): ...", "defined as handler(a, b, c)"),
        (
            "def preprocess(): ...",
            "preprocess is called with one argument, preprocess(request); it is def",
        ),
        ("def postprocess(outputs): ...", "called with 2 arguments, postprocess(outputs, request)"),
        ("def preprocess(r, *, must): ...", "defined as preprocess(r, *, must)"),
        ("async def handler(d, c): ...", "handler must be a plain function"),
        ("def handler(d, c): yield 1", "without yield"),
        ("handler = 'no'", "handler is not a function but 'no'"),
        ("class handler:\n  def __init__(self, d, c): ...", "handler is not a function"),
        ("def handler(d, c)\n  pass", "cannot be read as Python: SyntaxError: expected ':' (inference.py, line 1)"),
        ("\0", "cannot be read as Python"),
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'; put the package into code/requirements"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "cannot be imported: it calls sys.exit(3) when it is imported"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_what_is_refused(write_code: WriteCode, source: str, said: str) -> None:
    file = write_code(source)
    with pytest.raises(UserCodeError) as caught:
        load_functions(file)
    assert str(caught.value).startswith(str(file))
    assert said in str(caught.value)


@each(
    ("place", "right"),
    [
        ("inference.py", "code/inference.py"),
        ("code/code/inference.py", "code/inference.py"),
        ("net/inference.py", "net/code/inference.py"),
        ("net/007/inference.py", "net/code/inference.py"),
        ("net/1/code/inference.py", "net/code/inference.py"),
        ("code/Inference.py", "code/inference.py"),
        ("code/inferance.py", "code/inference.py"),
        ("code/inference.py.txt", "code/inference.py"),
    ],
)
def test_an_error_says_where_a_misplaced_file_belongs(tmp_path: Path, place: str, right: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    with pytest.raises(UserCodeError) as caught:
        refuse_misplaced([tmp_path / "net" / "code", tmp_path / "code"], "inference.py")
    assert str(file) in str(caught.value)
    assert str(caught.value).endswith(f" it to {tmp_path / right}")


@each(
    ("place", "right"),
    [
        ("lightbox.json", "code/lightbox.json"),
        ("net/lightbox.json", "net/code/lightbox.json"),
        ("net/1/lightbox.json", "net/code/lightbox.json"),
        ("net/1/code/lightbox.json", "net/code/lightbox.json"),
        ("net/Code/lightbox.json", "net/code/lightbox.json"),
        ("net/codes/lightbox.json", "net/code/lightbox.json"),
        ("net/code/lightbox.jsn", "net/code/lightbox.json"),
        ("net/code/lightbox.yaml", "net/code/lightbox.json"),
        ("net/code/lightbox.json.txt", "net/code/lightbox.json"),
        ("net/code/Lightbox.json", "net/code/lightbox.json"),
        ("net/code/ligthbox.json", "net/code/lightbox.json"),
        ("net/labels.txt", "net/code/labels.txt"),
        ("net/1/labels.txt", "net/code/labels.txt"),
        ("net/code/label.txt", "net/code/labels.txt"),
        ("code/Labels.TXT", "code/labels.txt"),
    ],
)
def test_so_are_misplaced_options_and_labels(tmp_path: Path, place: str, right: str) -> None:
    folders = [tmp_path / "net" / "code", tmp_path / "code"]
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    with pytest.raises(UserCodeError) as caught:
        refuse_misplaced_options(folders, has_labels=False)
    assert str(file) in str(caught.value)
    assert str(caught.value).endswith(f" it to {tmp_path / right}")
    if "abel" in place:
        refuse_misplaced_options(folders, has_labels=True)


def test_labels_that_no_option_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "labels.txt").write_text("cat")
    with pytest.raises(UserCodeError, match='is not read: set "labels": "labels'):
        refuse_misplaced_options([tmp_path / "code"], has_labels=False)


def test_other_files_are_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "code" / "lib").mkdir(parents=True)
    for name in ("code/lib/inference.py", "code/utils.py", "code/inference.ipynb", "code/lightbox.json", "readme.txt"):
        (tmp_path / name).write_text("")
    refuse_misplaced([tmp_path / "net" / "code", tmp_path / "code"], "inference.py")
    for name in ("code/lightbox.py", "code/lightbox.json.bak", "code/layers.txt", "lib.json"):
        (tmp_path / name).write_text("")
    refuse_misplaced_options([tmp_path / "net" / "code", tmp_path / "code"], has_labels=False)


def test_beside_the_code_for_all_a_model_may_be_named_by_digits(tmp_path: Path) -> None:
    shared, other = tmp_path / "code", tmp_path / "101" / "code"
    other.mkdir(parents=True)
    (other / "lightbox.json").write_text("{}")
    (other / "inference.py").write_text("")
    refuse_misplaced_options([tmp_path / "net" / "code", shared], has_labels=False)
    refuse_misplaced([tmp_path / "net" / "code", shared], "inference.py")


def test_only_names_of_folders_that_may_be_meant_cost_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of models beside the code for all."""
    for name in ("net", "m1", "resnet", "coder", "decoder", "101"):
        (tmp_path / name).mkdir()
    looked = list[str]()

    def is_dir(path: Path) -> bool:
        looked.append(path.name)
        return path.is_dir()

    monkeypatch.setattr(paths, "is_dir", is_dir)
    refuse_misplaced_options([tmp_path / "net" / "code", tmp_path / "code"], has_labels=False)
    assert not {"m1", "resnet", "decoder", "101"}.intersection(looked)
    assert "coder" in looked


def test_a_models_own_code_comes_first(tmp_path: Path) -> None:
    own, root = tmp_path / "net" / "code", tmp_path / "code"
    assert find_inference([own, root]) is None
    for folder in (root, own):
        folder.mkdir(parents=True)
        (folder / "inference.py").write_text("")
        (folder / "requirements.txt").write_text("")
    assert find_inference([own, root]) == own / "inference.py"
    assert find_requirements([own, root, root]) == [own / "requirements.txt", root / "requirements.txt"]


def test_what_has_the_name_but_is_no_file_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "inference.py").mkdir()
    (tmp_path / "requirements.txt").symlink_to(tmp_path / "nowhere.txt")
    assert find_inference([tmp_path]) == tmp_path / "inference.py"
    assert find_requirements([tmp_path]) == [tmp_path / "requirements.txt"]
    with pytest.raises(UserCodeError, match=r"inference\.py cannot be read as Python: IsADirectoryError"):
        load_functions(tmp_path / "inference.py")
